"""Live: the view of `top`. All of it is pure: commands/window.py has the terminal, and asks the supervisor.

Two samples of a system (`sample`) become figures of the time between them (`figures`); a key changes the page or the
selection (`navigation`); both and a size become lines (`view`, `columns`). No backplane is slowed down: these are the figures
of `status --stats`.
Read first: `figures.py`, then `view.py`.
"""
