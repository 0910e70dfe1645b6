"""Record settings: [record] and [topic.NAME] of the TOML, as settings. Pure.

A [record] table turns the recording of actions on; an empty one uses these defaults. The cost is bounded: `size` on disk
for each backplane, 104 bytes an action, and the memory of one or two segments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from appbackplane.runtime.observation.segments import ACTIONS_SUFFIX, MESSAGES_SUFFIX
from appbackplane.runtime.process_config import RecordPolicy
from appbackplane.transport.errors import InvalidArgument
from appbackplane.transport.topics import check_topic

from .log_settings import Size, in_words
from .reader import Duration, Reader, shown

#: Smaller segments hold under 3,700 actions beside their names and rotate too often; larger ones cannot be read at once.
SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX = 640 << 10, 1 << 30
#: The segment being written and the one before: with fewer, records would be gone before anybody read them.
SEGMENTS_MIN = 2
#: Each topic takes two open files and a segment of disk; on most machines a process may open 1,024 files.
TOPICS_MAX = 128
#: Longest file name on most file systems.
FOLDER_BYTES_MAX = 255
#: Suffixes of a backplane's own files, which lie beside the folders of its topics.
OURS = (ACTIONS_SUFFIX, MESSAGES_SUFFIX, ".tmp", ".ledger")
_HOUR_NS = 3_600 * 1_000_000_000


class RecordSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[record]: the recording of actions in every backplane."""

    #: `false` keeps the table without recording.
    actions: bool = True
    #: Bytes of all segments of a backplane: 2.5 million actions.
    size: Size = Size(256 << 20)
    #: Older segments are removed.
    age_ns: Duration = msgspec.field(default=Duration(24 * _HOUR_NS), name="age")
    #: Bytes of one segment: 78,000 actions, which the busiest backplane fills in a tenth of a second.
    segment: Size = Size(8 << 20)


class TopicSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[topic.NAME]: the recording of one topic's messages."""

    record: bool = False
    #: Bytes of all segments of the topic, in each backplane that publishes on it.
    size: Size = Size(64 << 20)
    age_ns: Duration = msgspec.field(default=Duration(24 * _HOUR_NS), name="age")
    segment: Size = Size(1 << 20)


def read(reader: Reader, table: Mapping[str, Any]) -> tuple[RecordSettings | None, dict[str, TopicSettings]]:
    """[record] and every [topic.NAME] of the whole TOML. Problems are noted in `reader`."""
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
            reader.say(at, f"its records are kept in a folder of this name: at most {FOLDER_BYTES_MAX} bytes, and no /")
        if name.endswith(OURS):
            reader.say(at, f"its records are kept in a folder of this name, beside files that end in {', '.join(OURS)}")
        topics[name] = settings = TopicSettings(**reader.table(TopicSettings, section, at))
        _check(reader, at, settings)
    return record, topics


def policy(settings: RecordSettings | TopicSettings) -> RecordPolicy:
    """The same bounds, in the form that a process's configuration carries."""
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
