"""Contexts: the kernel for code that posts and rejoins: in its own process, or in that of a worker."""
