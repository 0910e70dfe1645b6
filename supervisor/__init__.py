"""Turn a TOML file into running, healthy, visible processes.

`config` reads the TOML and checks it whole; `run` is the loop that sees, has it judged, and does. Rooms: `direction` (events
in, effects out: what happens next), `control` (what is asked and answered), `processes` (spawn, place, limit, bury), `logs`,
`metrics`, `doctor`, `live` (the view of `top`), `commands` (one verb a file). Never on the path of a call: callers and
backplanes talk to each other directly. Read first: `direction/director.py`.
"""
