"""Proxies: things that live elsewhere on the web, consumed by their Thing Descriptions, and served as things of this system.

    ConsumedThings        consumed_things.py       the component: reads the descriptions, and keeps a thing for each
    ConsumedThing         consumed_thing.py        the class of such a thing, made from its description
    ConsumedDescription   consumed_description.py  what is used of a description: affordances and forms; decides, without I/O
    ConsumerThread        consumer_thread.py       the thread in which requests are made and streams are read
    HttpClient            http_client.py           requests and streams over HTTP
    Driver                driver.py                the base class of drivers, for devices that speak something else
    StreamParser          stream_parser.py         server-sent events, from bytes
    told_error            http_errors.py           the error for a status of HTTP

Read consumed_things.py first. It needs the extra `web`.
"""

from .consumed_things import ConsumedThings
from .driver import Driver, DriverForm

__all__ = ["ConsumedThings", "Driver", "DriverForm"]
