"""Objects: the classes that users declare. Components, the objects in them, their operations, and the resulting actions.

This step only describes; it never decides which action runs next (scheduling) and never runs one (execution). Plain
objects, no threads, no clocks. Read `action.py` first, then `app_object.py` and `operation.py`.
"""
