"""Live: what `top` shows, and how it is kept on a terminal.

Two looks at a system (`sample`) become figures of the time between them (`figures`); a key changes what is looked at
(`navigation`); both and a size become lines (`view`, `columns`). All of these are pure. `window` alone knows the terminal
and asks the supervisor. Nothing here slows a backplane down: it reads what `status --stats` reads.
Read first: `figures.py`, then `view.py`.
"""
