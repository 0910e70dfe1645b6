"""Proxies: things that live elsewhere on the web, consumed by their Thing Descriptions, and served as things of this system.

    ConsumedThings        consumed_things.py       the component: reads the descriptions, and keeps a thing for each
    ConsumedThing         consumed_thing.py        the class of such a thing, made from its description
    ConsumedDescription   consumed_description.py  what is used of a description: affordances and forms; decides, without I/O
    HttpConsumer          http_consumer.py         the thread that sends the requests and reads the streams
    StreamParser          stream_parser.py         server-sent events, from bytes
    told_error            http_errors.py           the error for a status of HTTP

Read consumed_things.py first. It needs the extra `web`.
"""

from .consumed_things import ConsumedThings

__all__ = ["ConsumedThings"]
