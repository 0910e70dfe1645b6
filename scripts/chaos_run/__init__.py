"""Chaos: a real system under load, whose processes are killed, stopped and restarted; and then counts of what is left.

Which moves, and when, is drawn from a seed (`moves`, pure) and done by `agent`. The load is `components` inside and `clients`
outside, who count how each call ended. `census` counts what a system holds, `log_check` reads what it said, `verdict` judges
both. Read first: `run`.
"""
