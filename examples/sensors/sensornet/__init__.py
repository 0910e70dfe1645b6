"""Sensor networks as things: the devices of this very host, and a simulated field of 1,000 battery-powered nodes.

`model.py` decides when a node wakes, what it measures, which messages are lost and when its battery is dead: pure, from a seed.
`nodes.py` hosts the model as things, and publishes what they report on a recorded topic. `host.py` has the devices of the
host, `rates.py` makes rates of their counters. `aggregates.py` evaluates the recorded reports by Spark. Read `model.py` first.
"""
