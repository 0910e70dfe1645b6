"""Control: requests to the supervisor, and its replies.

`control_socket` receives and sends; `desk` serves route by route; `asked` parses bodies; `status` describes the system;
`questions` and `inquiry` ask backplanes first; `reconfiguring` applies another configuration; `trials` constructs
components in a separate process before a restart.
"""
