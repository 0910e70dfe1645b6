"""The examples are programs of users: they are imported as their own backplanes would, with their folder first."""

import sys
import sysconfig
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
for folder in ("codesearch", "architectures", "architectures/station", "pipeline", "house_hub", "rfid", "sensors"):
    sys.path.insert(0, str(EXAMPLES / folder))


@pytest.fixture(scope="session")
def stdlib() -> Path:
    """The standard library of the Python that runs the tests: real input."""
    return Path(sysconfig.get_paths()["stdlib"])
