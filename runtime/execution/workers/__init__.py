"""Workers: threads that run actions, which of them polls the link, and the action and the clock of a thread."""
