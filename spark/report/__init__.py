"""Report: show a system's behaviour from its recordings, on a terminal or as an HTML page. The jobs do the computing.

`program.py` runs the jobs and writes their results; `contents.py` defines these as plain rows; `terminal.py` and `page.py`
show them; `plots.py` draws. `replay.py` is the program behind `appbackplane replay`. `overview.py` answers the one question
that only a report has: how much, when, and how long. Rendering does not depend on the source of a figure, and a page loads
nothing from elsewhere. Read `contents.py` first.
"""
