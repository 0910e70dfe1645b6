"""Checks: refuse wrong messages, data, handlers and arguments before anything runs.

Each raises a `DeclarationError` or `RegistrationError` that names the object and a remedy. Nothing here knows of held locks or
of messages under way. Read `signature.py` (the parameters of a handler) and `matching.py` (whether its arguments fit) first;
`kinds.py` compares types, `lock_search.py` reads code.
"""
