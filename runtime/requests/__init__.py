"""Requests: the kernel for bulk work that splits into sub-requests, runs on many workers, and joins again (seed 001)."""
