"""Recorders: where ended actions are recorded, if they are (recording.py)."""

from __future__ import annotations

from collections.abc import Callable

from ..objects.action import Action
from ..observation.recorder import Recorder
from .external_work import ExternalWorkRecorder


class Recorders:
    """The recorder of a backplane's own actions, and those of external work. Set by the recording, read by completion."""

    def __init__(self) -> None:
        #: None: nothing is recorded.
        self.actions: Recorder | None = None
        #: Gives the recorder for external work of that name; None: nothing is recorded.
        self.beside: Callable[[str], ExternalWorkRecorder] | None = None

    def trace_of(self, action: Action | None) -> str | None:
        """The trace that envelopes sent by `action` carry; where actions are recorded, it also names the sender."""
        if action is None:
            return None
        recorder = self.actions
        return action.trace if recorder is None else recorder.context(action)
