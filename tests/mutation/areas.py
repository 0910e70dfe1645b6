"""All mutations, by area."""

from __future__ import annotations

from tests.mutation import laws
from tests.mutation.mutation import Mutation

#: In the order in which they are run.
AREAS: dict[str, tuple[Mutation, ...]] = {
    "laws": laws.MUTATIONS,
}
MUTATIONS = tuple(mutation for table in AREAS.values() for mutation in table)
