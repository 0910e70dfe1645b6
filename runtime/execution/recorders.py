"""Recorders: where ended actions and their waits are recorded, if they are (recording.py, span_export.py)."""

from __future__ import annotations

from collections.abc import Callable

from ..objects.action import Action
from ..observation.recorder import Recorder
from ..observation.span_buffer import SpanBuffer
from ..observation.span_ids import SpanIds
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

    def trace_of(self, action: Action | None) -> str | None:
        """The trace that envelopes sent by `action` carry; where actions are recorded, it also names the sender."""
        if action is None:
            return None
        ids = self.ids
        return action.trace if ids is None else ids.context(action)

    def stop(self) -> None:
        """Record nothing from now on."""
        self.actions = self.spans = self.ids = self.beside = None
