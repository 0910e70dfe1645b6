"""Build: whether the hot modules were compiled or are interpreted (docs/decisions/compiled.md).

The same source behaves the same either way, but runs at about half the speed interpreted. Benchmarks and bug reports must
therefore name the build. Either all hot modules are compiled or none (setup.py), so checking one module is enough.
"""

from typing import Literal

from appbackplane.transport import envelope

BUILD: Literal["compiled", "interpreted"] = "interpreted" if envelope.__file__.endswith((".py", ".pyc")) else "compiled"
