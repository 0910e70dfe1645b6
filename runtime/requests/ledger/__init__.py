"""Ledger: every request in exactly one state, and the decisions about it: posted, taken, rejoined."""
