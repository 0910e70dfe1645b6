"""The system as things: a component that makes each backplane a thing, with figures, restart and scale, and notices of its end.

Once a second `system_things.py` asks the supervisor, as the commands `status` and `why` do. The answers are read in `status.py`
and become properties and events in `properties.py`; both are pure. `backplane_thing.py` declares the affordances,
`supervisor_client.py` holds the connection. Never here: calls to a backplane to measure it. Read `system_things.py` first.
"""

from .backplane_thing import BackplaneThing
from .system_things import SystemThings

__all__ = ["BackplaneThing", "SystemThings"]
