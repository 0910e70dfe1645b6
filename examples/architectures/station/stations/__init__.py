"""Stations: one inspection station, written once in each architecture. Every module has a component `Station`.

All serve the same three routes, `station.frame`, `station.reading` and `station.command`, and do the same work for them
(work.py). So two modules differ in nothing but their architecture: read them side by side, each with its TOML in the folder
above. `registry.py`, two folders up, lists them with what each promises.
"""
