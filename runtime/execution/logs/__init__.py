"""Logs: lines of this process on their way to the supervisor."""
