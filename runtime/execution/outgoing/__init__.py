"""Outgoing: calls, streams and messages that objects of this backplane send, and where they go."""
