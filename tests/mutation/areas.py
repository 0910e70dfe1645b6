"""All mutations, by area."""

from __future__ import annotations

from tests.mutation import (
    addresses,
    architectures,
    batching,
    caller,
    dataflow,
    flows,
    lanes,
    laws,
    ledger,
    locks,
    movement,
    overload,
    permissions,
    policies,
    proxies,
    restarts,
    rfid,
    scheduling,
    spans,
    things,
    wire,
)
from tests.mutation.mutation import Mutation

#: In the order in which they are run.
AREAS: dict[str, tuple[Mutation, ...]] = {
    "laws": laws.MUTATIONS,
    "scheduling": scheduling.MUTATIONS,
    "wire": wire.MUTATIONS,
    "caller": caller.MUTATIONS,
    "restarts": restarts.MUTATIONS,
    "movement": movement.MUTATIONS,
    "locks": locks.MUTATIONS,
    "ledger": ledger.MUTATIONS,
    "lanes": lanes.MUTATIONS,
    "spans": spans.MUTATIONS,
    "overload": overload.MUTATIONS,
    "batching": batching.MUTATIONS,
    "architectures": architectures.MUTATIONS,
    "things": things.MUTATIONS,
    "permissions": permissions.MUTATIONS,
    "rfid": rfid.MUTATIONS,
    "addresses": addresses.MUTATIONS,
    "dataflow": dataflow.MUTATIONS,
    "policies": policies.MUTATIONS,
    "flows": flows.MUTATIONS,
    "proxies": proxies.MUTATIONS,
}
MUTATIONS = tuple(mutation for table in AREAS.values() for mutation in table)
