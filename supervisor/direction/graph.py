"""Graph: walks along dependencies and calls. Without recursion: a chain may be longer than Python's stack."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping


def reached(start: Iterable[str], following: Callable[[str], Iterable[str]]) -> list[str]:
    """`start`, and all that is reached from it, the nearer first. `following`: the neighbours of a name."""
    found = dict.fromkeys(start)
    ahead = list(found)
    for name in ahead:  # it grows meanwhile
        news = [other for other in following(name) if other not in found]
        found |= dict.fromkeys(news)
        ahead += dict.fromkeys(news)
    return ahead


def rings(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """One cycle for each edge that closes one, as names from its first one (in the order of `graph`) back to itself."""
    found: list[list[str]] = []
    done: set[str] = set()
    for start in graph:
        if start in done:
            continue
        way, ways = [start], [iter(graph[start])]
        while ways:
            name = next(ways[-1], None)
            if name is None:
                done.add(way.pop())
                ways.pop()
            elif name in way:
                found.append([*way[way.index(name) :], name])
            elif name not in done:
                way.append(name)
                ways.append(iter(graph[name]))
    return found
