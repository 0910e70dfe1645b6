"""Settings: the part of a backplane's configuration that the director needs."""

from __future__ import annotations

from dataclasses import dataclass

from ...configuration.config import Config, RestartPolicy


@dataclass(frozen=True, slots=True)
class ChildSettings:
    """The settings of one backplane; replaced as a whole when the configuration changes."""

    policy: RestartPolicy
    #: Limit of registering and of each hook on the way up; limit of the last hook on the way down, and then of the exit.
    start_limit_ns: int
    stop_limit_ns: int
    #: How long it may work on accepted requests before it goes down.
    drain_limit_ns: int
    #: The common name of the replicas that it belongs to; None: it has no replicas.
    replica_of: str | None = None
    #: Its components leave `start` only on the primary node of a cluster.
    is_primary_only: bool = False
    #: It connects this node to other nodes; it runs alike on each node of a cluster.
    is_carrier: bool = False


def settings_of(config: Config) -> dict[str, ChildSettings]:
    """The settings of each backplane, by name."""
    replica_of, system = config.replica_of, config.system
    return {
        name: ChildSettings(
            share.restart,
            share.start_limit_ns or system.start_limit_ns,
            share.stop_limit_ns or system.stop_limit_ns,
            config.drain_limit_ns(name),
            replica_of.get(name),
            is_primary_only=share.only_on == "primary",
            is_carrier=name == config.carrier,
        )
        for name, share in config.backplane.items()
    }
