"""Mashups: rules that combine things, in Python and in TOML.

A `Mashup` is a thing that hears the notifications of others. What a trigger starts is decided in `deciding.py` (pure), from
the policies in `rule.py`; `runner.py` carries it out, and `run_log.py` with `journal.py` remembers it beyond a process. Never
here: rights, which hold below, at the calls that a rule makes. Read `mashup.py` first, then `runner.py`.
"""

from .handles import thing, things
from .mashup import Mashup, when
from .rule import Cause
from .rules import Rules

__all__ = ["Cause", "Mashup", "Rules", "thing", "things", "when"]
