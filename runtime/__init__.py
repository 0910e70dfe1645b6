"""Decide what runs next in this process, and run it."""
