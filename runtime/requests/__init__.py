"""Requests: bulk work that splits into sub-requests, runs on many workers, and joins again (seed 001).

Users write runnables and post requests to them; the kernel decides what runs next, on how many workers, and gives the
finished ones back to who posted them. Never here: a broker, a queue without a bound, or work that is forgotten without
being reported.
"""
