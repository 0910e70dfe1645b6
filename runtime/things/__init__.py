"""Things: objects that represent devices, with properties, actions and events and a machine-readable description.

W3C's Web of Things calls the three kinds of interaction affordances. Each is declared once, by a decorator and its annotations
(`declaring.py`); the description of the class is derived from them (`description.py`), by the schemas of their types
(`schemas.py`). A `Thing` is an `AppObject`: order, priorities, deadlines and limits are those of any operation. Never here:
HTTP. Read `thing.py` first, then `declaring.py`.
"""

from .declaring import action, event, prop
from .thing import Thing

__all__ = ["Thing", "action", "event", "prop"]
