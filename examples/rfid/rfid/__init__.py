"""RFID: reads of a reader become passes of tags, and passes become EPCIS events: the RFID evaluation of Guinard's thesis.

`llrp.py` converts the reader's bytes to messages, `smoothing.py` decides which tags are present, `epcis.py` makes and checks
events; these are pure. `handlers.py` connects them, with sockets and timers, in the dispatcher of `readers.py`. `things.py` has
the things, `repository.py` stores the events, `web.py` serves them. `world.py` and `simulation.py` simulate a reader. Read
`messages.py` first, then `readers.py`.
"""
