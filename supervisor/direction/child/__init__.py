"""Child: what the director knows of one backplane, through all its generations. Pure.

`child` has the whole, and is to be read first. Each of its parts owns its fields: others read them, and call a method where
something has happened (a check in tests/house holds that). `settings`: what the configuration says. `process`: generation,
phase, deadline. `components`: what has registered, where it is, which hooks run or have failed. `departure`: whether it goes
down in order, and what comes after. `drain`: its accepted work, before it goes down. `history`: its service and its deaths.
"""
