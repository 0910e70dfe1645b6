"""Requests: a real kernel under load, whose requests fail and whose workers are killed; and then an account of every request.

What each request does, and whether it fails, follows from the seed and its name (`plan`, pure). Who executes one writes that
down, and who posted some writes down what rejoined (`components`, `records`); `account` holds it all against the kernel's own
figures, pure. Read first: `run`.
"""
