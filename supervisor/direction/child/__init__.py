"""Child: the director's knowledge of one backplane, through all its generations. Pure.

Read `child` first. Each part owns its fields: other files read them, and call a method of the part when something has happened
(tests/house/test_owners.py checks this). `settings`: the configuration. `process`: generation, phase, deadline. `components`:
the registration, the states of components, their hooks. `departure`: whether it goes down in order, and its next start.
`drain`: its accepted work, before it goes down. `history`: its service and its deaths.
"""
