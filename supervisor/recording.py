"""What is recorded: [record] and [topic.NAME] of the TOML, as settings. Pure.

A table [record] turns the recording of actions on, an empty one with these defaults. What it may cost is known beforehand:
`size` on the disk for each backplane, 104 bytes an action, and the memory of one or two segments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from appbackplane.runtime.observation.segments import ACTIONS_SUFFIX, MESSAGES_SUFFIX
from appbackplane.runtime.process_config import RecordPolicy
from appbackplane.transport.errors import InvalidArgument
from appbackplane.transport.topics import check_topic

from .config_reader import Duration, Reader, shown
from .logs.settings import Size, in_words

#: Below, a segment holds 3,700 actions beside its names, and turning costs more than writing; above, nothing reads one at once.
SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX = 640 << 10, 1 << 30
#: The one that is written, and the one before: with less, what is recorded would be gone before anybody read it.
SEGMENTS_MIN = 2
#: Topics: an open file and a segment of disk each.
TOPICS_MAX = 256
#: What file systems take for a name.
FOLDER_BYTES_MAX = 255
#: How names of a backplane's own files end, which lie beside the folders of its topics.
OURS = (ACTIONS_SUFFIX, MESSAGES_SUFFIX, ".tmp", ".ledger")
_HOUR_NS = 3_600 * 1_000_000_000


class RecordSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[record]"""

    #: Whether actions are: `false` keeps the table for another day.
    actions: bool = True
    #: Of all segments of a backplane: 2.5 million actions.
    size: Size = Size(256 << 20)
    #: What is older goes.
    age_ns: Duration = msgspec.field(default=Duration(24 * _HOUR_NS), name="age")
    #: A file: 78,000 actions, which the busiest backplane fills in a tenth of a second.
    segment: Size = Size(8 << 20)


class TopicSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[topic.NAME]"""

    record: bool = False
    #: Of all segments of the topic, in each backplane that publishes on it.
    size: Size = Size(64 << 20)
    age_ns: Duration = msgspec.field(default=Duration(24 * _HOUR_NS), name="age")
    segment: Size = Size(1 << 20)


def read(reader: Reader, table: Mapping[str, Any]) -> tuple[RecordSettings | None, dict[str, TopicSettings]]:
    """Of the whole TOML. What is wrong is noted."""
    record = None
    if "record" in table:
        values = reader.table(RecordSettings, table["record"], ("record",))
        record = RecordSettings(**values)
        _check(reader, ("record",), record)
    topics = {}
    sections = table.get("topic", {})
    if not isinstance(sections, dict):
        reader.say(("topic",), f'expected tables, [topic."host.sample"] with record = true, got {shown(sections)}')
        sections = {}
    if len(sections) > TOPICS_MAX:
        reader.say(("topic",), f"{len(sections)} topics, expected at most {TOPICS_MAX}")
    for name, section in sections.items():
        at = ("topic", name)
        try:
            check_topic(name)
        except InvalidArgument as error:
            reader.say(at, str(error))
        if "/" in name or "\0" in name or len(name.encode()) > FOLDER_BYTES_MAX:
            reader.say(at, f"its records lie in a folder of its name: at most {FOLDER_BYTES_MAX} bytes, and no /")
        if name.endswith(OURS):
            reader.say(at, f"its records lie in a folder of its name, beside files that end in {', '.join(OURS)}")
        topics[name] = settings = TopicSettings(**reader.table(TopicSettings, section, at))
        _check(reader, at, settings)
    return record, topics


def policy(settings: RecordSettings | TopicSettings) -> RecordPolicy:
    """As a process is told."""
    return RecordPolicy(size=int(settings.size), age_ns=int(settings.age_ns), segment=int(settings.segment))


def _check(reader: Reader, at: tuple[str, ...], settings: RecordSettings | TopicSettings) -> None:
    if not SEGMENT_BYTES_MIN <= settings.segment <= SEGMENT_BYTES_MAX:
        least, most = in_words(SEGMENT_BYTES_MIN), in_words(SEGMENT_BYTES_MAX)
        reader.say((*at, "segment"), f"expected {least} to {most}, got {in_words(settings.segment)}")
    if settings.size < SEGMENTS_MIN * settings.segment:
        least = in_words(SEGMENTS_MIN * settings.segment)
        reader.say((*at, "size"), f"expected {least} or more, two segments, got {in_words(settings.size)}")
    if settings.age_ns < 1_000_000_000:
        reader.say((*at, "age"), "expected 1s or more")
