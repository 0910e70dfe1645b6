"""A machine without Java: an environment whose PATH has every program but that one."""

from __future__ import annotations

import os
from pathlib import Path


def environment_without_java(folder: Path) -> dict[str, str]:
    """Links to all other programs are put into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    kept: list[str] = []
    for number, place in enumerate(filter(os.path.isdir, os.environ["PATH"].split(os.pathsep))):
        if not os.path.lexists(os.path.join(place, "java")):
            kept.append(place)
            continue
        links = folder / str(number)
        links.mkdir(exist_ok=True)
        for program in os.scandir(place):
            if program.name != "java":
                (links / program.name).symlink_to(program.path)
        kept.append(str(links))
    others = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "SPARK_SUBMIT_OPTS")}
    return {**others, "PATH": os.pathsep.join(kept)}
