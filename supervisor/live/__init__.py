"""Live: the view of `top`, and its loop on a terminal.

Two samples of a system (`sample`) become figures of the time between them (`figures`); a key changes the page or the
selection (`navigation`); both and a size become lines (`view`, `columns`). All of these are pure. Only `window` touches the
terminal and calls the supervisor. It slows no backplane down: it reads the same figures as `status --stats`.
Read first: `figures.py`, then `view.py`.
"""
