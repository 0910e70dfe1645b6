"""Build: whether what runs here was compiled, or is interpreted (docs/decisions/compiled.md).

The same source does the same either way, at about half the speed interpreted; so whoever compares figures, or reports a
fault, must know which it was. All hot modules are compiled or none (setup.py): one of them speaks for all.
"""

from typing import Literal

from appbackplane.transport import envelope

BUILD: Literal["compiled", "interpreted"] = "interpreted" if envelope.__file__.endswith((".py", ".pyc")) else "compiled"
