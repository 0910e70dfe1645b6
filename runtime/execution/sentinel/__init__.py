"""Sentinel: duties of the process that must not wait behind user code: its control link, its end, its forks."""
