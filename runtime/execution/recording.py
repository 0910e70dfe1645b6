"""Recording: what of this backplane is recorded, and the thread that makes, seals and removes the files for it.

Actions as they end (observation/recorder.py), messages of recorded topics as they are published (message_log.py). What was
written is in the kernel's memory: it survives kill -9 of this process; a power cut takes the last seconds.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from ..observation import segments
from ..observation.message_log import MessageLog
from ..observation.recorder import Recorder
from ..observation.segments import SegmentHeader
from ..process_config import LiveSettings, ProcessConfig, RecordPolicy
from .beside import Beside
from .clock import Clock
from .engine import Engine
from .segment_files import SegmentFiles

#: How often is looked for what is too old; what fills a segment wakes the thread itself.
LOOK_S = 5.0
#: How long the lead is waited for, at most once a look.
LEAD_TIMEOUT_S = 0.1

log = logging.getLogger("appbackplane.runtime")


class Recording:
    """Of one backplane."""

    def __init__(self, config: ProcessConfig, engine: Engine, clock: Clock, unix_offset_ns: Callable[[], int]) -> None:
        """`unix_offset_ns`: makes Unix time of the clock's. Raises OSError where the folders cannot be looked into."""
        self._config, self._engine, self._clock, self._unix_offset_ns = config, engine, clock, unix_offset_ns
        self._is_due = threading.Event()
        self._is_closed = False
        self._written: list[tuple[Recorder | MessageLog | Beside, SegmentFiles]] = []
        #: What others do for this backplane, by their name; under the lock.
        self._besides: dict[str, Beside] = {}
        self._lock = threading.Lock()
        run_dir = Path(config.run_dir)
        if config.record is not None:
            folder = segments.actions_folder(run_dir, config.backplane)
            files = self._files(folder, "actions", segments.ACTIONS_SUFFIX, config.record)
            # Counted on from anywhere in 61 bits: of a thousand generations with a thousand million actions each, two share a
            # span in one of two thousand systems; and none has a digit more than a traceparent holds.
            engine.endings.recorder = Recorder(files, secrets.randbits(61))
            engine.endings.beside = self._beside
            files.prepare()  # every backplane has actions; on a topic it may never publish
            self._written.append((engine.endings.recorder, files))
        for topic, policy in config.recorded_topics.items():
            folder = segments.messages_folder(run_dir, config.backplane, topic)
            files = self._files(folder, "messages", segments.MESSAGES_SUFFIX, policy, topic)
            engine.publishing.records[topic] = messages = MessageLog(files)
            self._written.append((messages, files))
        self._thread = threading.Thread(target=self._tend, name="recording", daemon=True)

    def start(self) -> None:
        """From now on files are made before they are needed."""
        self._thread.start()

    def changed(self, settings: LiveSettings) -> None:
        """The backplane's limits are others now: what follows is written under a header that says so."""
        self._follow(msgspec.to_builtins(settings))

    def limit_is_kept_by(self, keeper: str) -> None:
        """Who holds the CPU limit: a simulation that had to guess took a run that the kernel stretched for one that waits."""
        self._follow({"cpu_limit_by": keeper})

    def _follow(self, given: dict[str, Any]) -> None:
        for writer, files in self._written:
            if isinstance(writer, Beside):
                continue  # what this backplane may do is no limit of others
            limits = files.header.limits | given
            if limits != files.header.limits:
                files.header = replace(files.header, limits=limits)
                writer.turn()

    def close(self) -> None:
        """Seal what there is. Whoever calls has the lead, or is alone."""
        self._engine.endings.recorder = self._engine.endings.beside = None
        self._engine.publishing.records = {}
        self._is_closed = True
        self._is_due.set()
        if self._thread.is_alive():
            self._thread.join()
        for writer, files in self._written:
            writer.close()
            files.close()

    def figures(self) -> dict[str, Any]:
        """For `status --stats`: what was recorded, what was lost, and why."""
        return {
            _name_of(files, self._config.backplane): {
                "recorded": writer.count,
                "lost": writer.lost_count,
                "problem": files.problem,
            }
            for writer, files in self._written
        }

    def _beside(self, name: str) -> Beside:
        """The same one each time: a component that comes up again goes on in its segments. Any thread."""
        with self._lock:
            if name not in self._besides:
                config = self._config
                assert config.record is not None, "set where actions are recorded"
                whose = f"{config.backplane}.{name}"
                folder = segments.actions_folder(Path(config.run_dir), whose)
                files = self._files(folder, "actions", segments.ACTIONS_SUFFIX, config.record)
                files.header = replace(files.header, backplane=whose, limits={"executed_by": name})
                beside = self._besides[name] = Beside(Recorder(files, secrets.randbits(61)), files, self._is_due.set)
                self._written.append((beside, files))
            return self._besides[name]

    def _files(
        self, folder: Path, kind: str, suffix: str, policy: RecordPolicy, topic: str | None = None
    ) -> SegmentFiles:
        config = self._config
        header = SegmentHeader(
            kind=kind,
            system=config.system,
            node=os.uname().nodename,
            backplane=config.backplane,
            generation=config.generation,
            pid=os.getpid(),
            number=0,
            created_ns=0,
            topic=topic,
            limits={
                "threads": config.threads,
                "priorities": config.priorities,
                "quotas": config.quotas,
                "order": config.order,
                "tick_ns": config.tick_ns,
                "cpu_limit": config.cpu_limit,
                "cpu_exempt": config.cpu_exempt,
                "preempt": config.preempt,
                "nice": config.nice,
                "slow_action_ns": config.slow_action_ns,
            },
        )
        return SegmentFiles(folder, header, suffix, policy, self._clock.now_ns, self._unix_offset_ns, self._is_due.set)

    def _tend(self) -> None:
        while not self._is_closed:
            for writer, files in self._written:
                try:
                    if isinstance(writer, Beside):
                        writer.flush()
                    if files.tend():
                        self._turn(writer, files)
                except Exception:  # the edge: without this thread nothing would be sealed or removed any more
                    log.exception(
                        "recording: what is due of %s is left undone until the next look",
                        _name_of(files, self._config.backplane),
                    )
            self._is_due.wait(LOOK_S)
            self._is_due.clear()

    def _turn(self, writer: Recorder | MessageLog | Beside, files: SegmentFiles) -> None:
        """Close what has become old, also where nothing is recorded any more."""
        files.prepare()
        files.tend()  # whoever records next does not wait for a file
        if self._engine.lead.acquire(timeout=LEAD_TIMEOUT_S):  # whoever closes us has it, and waits for this thread
            try:
                if not self._is_closed:
                    writer.turn()
            finally:
                self._engine.lead.release()


def _name_of(files: SegmentFiles, backplane: str) -> str:
    """For people: a topic, the backplane's actions, or those of others beside it."""
    if files.topic is not None:
        return files.topic
    return "actions" if files.header.backplane == backplane else files.header.backplane
