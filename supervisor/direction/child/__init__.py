"""Child: what the director knows of one backplane, through all its generations. Pure.

`child` has the whole, and is to be read first. `process`: the phases of its process. `components`: the state of its components
and their hooks. `drain`: its accepted work, before it goes down.
"""
