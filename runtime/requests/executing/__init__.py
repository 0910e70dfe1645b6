"""Executing: what executes requests: threads of this backplane, or processes of their own."""
