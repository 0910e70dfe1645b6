"""Checks: whether a message, a datum, a handler and what it is registered with can be right, before anything runs.

Each raises a `DeclarationError` or `RegistrationError` that names the thing and what to write instead. Nothing here knows of
locks that are held, or of messages that are under way. Read `signature.py` (what a handler wants) and `matching.py` (whether it
gets that) first; `kinds.py` compares types, `lock_search.py` reads code.
"""
