"""Objects: what users declare. Components, the objects in them, their operations, and the actions these become.

This step only describes; it never decides what runs next (scheduling) and never runs anything (execution). Plain
objects, no threads, no clocks. Read `action.py` first, then `app_object.py` and `operation.py`.
"""
