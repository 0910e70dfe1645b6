"""Report: what a system did, from what it recorded, told on a terminal and as a page. Asks the jobs, and computes little.

`program.py` runs the jobs and writes what comes of them; `contents.py` is that, as plain rows; `terminal.py` and `page.py`
show it; `plots.py` draws, `overview.py` is the one question that only a report has: how much, when, and how long it took.
Nothing here knows where a figure comes from, and nothing that is shown is fetched from elsewhere. Read `contents.py` first.
"""
