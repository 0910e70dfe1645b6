"""Recording: sets up the recorders of this backplane, and the thread that makes, seals and removes their files.

Actions are recorded as they end (observation/recorder.py), messages of recorded topics as they are published (message_log.py).
Records are in the kernel's memory: they survive kill -9 of this process; a power cut loses the last seconds.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from ...observation import segments
from ...observation.message_log import MessageLog
from ...observation.recorder import Recorder
from ...observation.segments import SegmentHeader
from ...observation.span_ids import SpanIds
from ...process_config import LiveSettings, ProcessConfig, RecordPolicy
from ..actions.external_work import ExternalWorkRecorder
from ..loop.engine import Engine
from .segment_files import SegmentFiles

#: Interval of the search for old segments. A full segment wakes the thread at once.
LOOK_S = 5.0
#: How long the recording thread waits for the lead, at most once for each file set and interval.
LEAD_TIMEOUT_S = 0.1
#: The settings in the headers of segments, by their names in `ProcessConfig`.
LIMITS = (
    "threads", "priorities", "quotas", "order", "shares", "max_starvation_ns", "tick_ns", "cpu_limit", "cpu_exempt", "preempt",
    "nice", "slow_action_ns",
)  # fmt: skip

log = logging.getLogger("appbackplane.runtime")


class Recording:
    """The recorders and the recording thread of one backplane."""

    def __init__(self, config: ProcessConfig, engine: Engine) -> None:
        """Raises OSError if a folder cannot be read."""
        self._config, self._clock = config, engine.clock
        self._lead, self._stop_recording = engine.lead, engine.stop_recording
        self._is_due = threading.Event()
        self._is_closed = False
        self._written: list[tuple[Recorder | MessageLog | ExternalWorkRecorder, SegmentFiles]] = []
        #: Recorders of external work, by name; guarded by `_lock`.
        self._besides: dict[str, ExternalWorkRecorder] = {}
        self._lock = threading.Lock()
        if config.record is not None:
            files = self._files(config.record)
            recorder = Recorder(files, engine.recorders.ids_of_spans())
            engine.recorders.actions, engine.recorders.beside = recorder, self._beside
            files.prepare()  # every backplane has actions, but it may never publish on a topic
            self._written.append((recorder, files))
        for topic, policy in config.recorded_topics.items():
            files = self._files(policy, topic)
            messages = engine.publishing.records[topic] = MessageLog(files)
            self._written.append((messages, files))
        self._thread = threading.Thread(target=self._tend, name="recording", daemon=True)

    def start(self) -> None:
        """Start the thread that makes files before they are needed, seals them, and removes old ones."""
        self._thread.start()

    def changed(self, settings: LiveSettings) -> None:
        """The backplane's limits have changed: continue in segments whose headers contain the new ones."""
        self._follow(msgspec.to_builtins(settings))

    def limit_is_kept_by(self, keeper: str) -> None:
        """Record the keeper of the CPU limit: without it a simulation took a run stretched by the kernel for a waiting one."""
        self._follow({"cpu_limit_by": keeper})

    def _follow(self, given: dict[str, Any]) -> None:
        for writer, files in self._written:
            if isinstance(writer, ExternalWorkRecorder):
                continue  # the limits of this backplane do not bind external systems
            limits = files.header.limits | given
            if limits != files.header.limits:
                files.header = replace(files.header, limits=limits)
                writer.turn()

    def close(self) -> None:
        """Stop recording and seal all segments. Call it under the lead, or from the only thread."""
        self._stop_recording()
        self._is_closed = True
        self._is_due.set()
        if self._thread.is_alive():
            self._thread.join()
        for writer, files in self._written:
            writer.close()
            files.close()

    def figures(self) -> dict[str, Any]:
        """For `status --stats`: the numbers of recorded and lost records, and the problem if there is one."""
        return {
            _name_of(files, self._config.backplane): {
                "recorded": writer.count,
                "lost": writer.lost_count,
                "problem": files.problem,
            }
            for writer, files in self._written
        }

    def _beside(self, name: str) -> ExternalWorkRecorder:
        """Always the same recorder for a name, so that a restarted component continues its segments. From any thread."""
        with self._lock:
            if name not in self._besides:
                assert self._config.record is not None, "set where actions are recorded"
                files = self._files(self._config.record, executed_by=name)
                recorder = Recorder(files, SpanIds(secrets.randbits(61)))
                beside = self._besides[name] = ExternalWorkRecorder(recorder, files, self._is_due.set)
                self._written.append((beside, files))
            return self._besides[name]

    def _files(self, policy: RecordPolicy, topic: str | None = None, executed_by: str | None = None) -> SegmentFiles:
        """The files of a topic's messages; without a topic, those of this backplane's actions, or of external work."""
        config, run_dir = self._config, Path(self._config.run_dir)
        backplane = config.backplane if executed_by is None else f"{config.backplane}.{executed_by}"
        if topic is None:
            kind, folder, suffix = "actions", segments.actions_folder(run_dir, backplane), segments.ACTIONS_SUFFIX
        else:
            folder = segments.messages_folder(run_dir, backplane, topic)
            kind, suffix = "messages", segments.MESSAGES_SUFFIX
        own = {name: getattr(config, name) for name in LIMITS}
        header = SegmentHeader(
            kind=kind,
            system=config.system,
            node=os.uname().nodename,
            backplane=backplane,
            generation=config.generation,
            pid=os.getpid(),
            number=0,
            created_ns=0,
            topic=topic,
            limits=own if executed_by is None else {"executed_by": executed_by},
        )
        return SegmentFiles(
            folder, header, suffix, policy, self._clock.now_ns, self._clock.unix_offset_ns, self._is_due.set
        )

    def _tend(self) -> None:
        while not self._is_closed:
            for writer, files in self._written:
                try:
                    if isinstance(writer, ExternalWorkRecorder):
                        writer.flush()
                    if files.tend():
                        self._turn(writer, files)
                except Exception:  # the edge: without this thread nothing would be sealed or removed any more
                    log.exception(
                        "recording: maintenance of %s failed; retried within 5 s",
                        _name_of(files, self._config.backplane),
                    )
            self._is_due.wait(LOOK_S)
            self._is_due.clear()

    def _turn(self, writer: Recorder | MessageLog | ExternalWorkRecorder, files: SegmentFiles) -> None:
        """Close an old segment, even if no further record comes."""
        files.prepare()
        files.tend()  # makes the next file now, so that the next record does not wait for it
        if self._lead.acquire(timeout=LEAD_TIMEOUT_S):  # with a timeout: `close` holds the lead and joins this thread
            try:
                if not self._is_closed:
                    writer.turn()
            finally:
                self._lead.release()


def _name_of(files: SegmentFiles, backplane: str) -> str:
    """The name shown for a file set: the topic, "actions", or BACKPLANE.NAME for external work."""
    if files.topic is not None:
        return files.topic
    return "actions" if files.header.backplane == backplane else files.header.backplane
