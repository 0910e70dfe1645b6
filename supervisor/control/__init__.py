"""Control: what is asked of the supervisor, and what it answers.

`control_socket` hears and says, `desk` serves route by route; `asked` is what a question means, `status` what is told of the
system, `questions` and `inquiry` those that backplanes have to be asked about, `reconfiguring` what is to be otherwise, and
`trials` what is constructed aside before a restart.
"""
