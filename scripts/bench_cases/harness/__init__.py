"""What the cases have in common: what a case is, how it is run, judged and shown, and systems and loads to measure.

Never measures anything by itself. Read `case.py` first.
"""
