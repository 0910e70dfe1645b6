"""Actions: how an action runs, waits, inherits priority, and ends, each exactly once."""
