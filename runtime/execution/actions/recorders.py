"""Recorders: where ended actions and their waits are recorded, if they are (recording.py, span_export.py)."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from ...objects.action import Action
from ...observation.recorder import Recorder
from ...observation.span_buffer import SpanBuffer
from ...observation.span_ids import SpanIds
from .external_work import ExternalWorkRecorder


class Recorders:
    """The recorders of a backplane's own actions, and those of external work. Set as the process starts (process.py)."""

    def __init__(self) -> None:
        #: None: nothing is recorded.
        self.actions: Recorder | None = None
        #: None: no spans are exported.
        self.spans: SpanBuffer | None = None
        #: None: neither of them.
        self.ids: SpanIds | None = None
        #: Gives the recorder for external work of that name; None: nothing is recorded.
        self.beside: Callable[[str], ExternalWorkRecorder] | None = None

    def ids_of_spans(self, sample: float = 1.0) -> SpanIds:
        """The ids for recorders: all use the same, which the first one makes. `sample`: see `SpanIds`."""
        if self.ids is None:
            # Ids count up from a random number of 61 bits. Of a thousand generations with a thousand million actions each, two
            # share one in one of two thousand systems; and no id has more digits than a traceparent holds.
            self.ids = SpanIds(secrets.randbits(61), sample)
        return self.ids

    def trace_of(self, action: Action | None) -> str | None:
        """The trace that envelopes sent by `action` carry; where actions are recorded, it also names the sender."""
        if action is None:
            return None
        ids = self.ids
        return action.trace if ids is None else ids.context(action)

    def stop(self) -> None:
        """Record nothing from now on."""
        self.actions = self.spans = self.ids = self.beside = None
