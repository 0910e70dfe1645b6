"""Consumed things: the component whose things live elsewhere on the web, one for each description in its settings.

The descriptions are read when the component is made, since its operations follow from them. One that cannot be read then is
asked for again, and its thing is there after this backplane has been restarted, which the component orders itself.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import msgspec

from appbackplane.transport.async_client import connect_async
from appbackplane.transport.errors import BackplaneError, FailedPrecondition

from ...objects.component import Component
from ...objects.operation import DeclarationError
from .consumed_description import ConsumedDescription, DescriptionError, Security, description_from, origin_of
from .consumed_thing import ConsumedThing, ProxyLimits, class_of
from .consumer_thread import STOP_S, ConsumerThread, ProtocolBinding
from .driver import DriverBinding, driver_of

try:
    from .http_client import HttpBinding, HttpClient, Remote
except ModuleNotFoundError as error:
    if error.name != "aiohttp":
        raise
    raise ModuleNotFoundError("proxies need aiohttp: pip install 'appbackplane[web]'", name="aiohttp") from error

#: Seconds for which the start waits for all descriptions together: a second more than each may take.
START_S: Final = 5.0
#: Seconds after which a description is asked for again: at first, and at most.
AGAIN_S: Final = 1.0
AGAIN_S_MAX: Final = 30.0
#: Seconds for the order to restart this backplane: it ends this very process.
RESTART_S: Final = 90.0
#: Bytes of a file with a description: more than any that people write.
FILE_BYTES_MAX: Final = 4 << 20
#: Things of one component.
THINGS_MAX: Final = 1_000
log = logging.getLogger("appbackplane.proxies")


class ProxySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thing. description: the URL or the file of its Thing Description. token_file: with the secret for it: a token, or
    USER:PASSWORD for the scheme basic. copy: a file in which the description of a URL is kept, for starts at which it cannot be
    read. origins: further ones that its forms may be at. local: it may be at an address of this host or its link. driver:
    "module:Class" of a `Driver` that speaks the device's protocol instead; options: its keywords. The rest: as `ProxyLimits`.
    """

    description: Annotated[str, msgspec.Meta(min_length=1, max_length=2_000)]
    token_file: str = ""
    copy: str = ""
    origins: tuple[str, ...] = ()
    local: bool = False
    driver: str = ""
    options: dict[str, Any] = {}
    requests: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 16
    waiting: Annotated[int, msgspec.Meta(ge=0, le=10_000)] = 64
    max_age: Annotated[float, msgspec.Meta(ge=0, le=3_600)] = 0.0

    @property
    def is_url(self) -> bool:
        return urlsplit(self.description).scheme in ("http", "https")


class ConsumedThings(Component):
    """Add it to a backplane of its own: `components = ["appbackplane.runtime.things.proxies:ConsumedThings"]`.

    things: a table for each (`ProxySettings`). Raises ValueError for wrong settings, and for nothing else: a thing whose
    description is wrong, or cannot be read, is left out, which is logged.
    """

    component_name = "proxies"

    def __init__(self, things: Sequence[Mapping[str, Any]] = ()) -> None:
        self._settings = [_settings(index, each) for index, each in enumerate(things)]
        if len(self._settings) > THINGS_MAX:
            raise ValueError(f"things: {len(self._settings):,}: expected at most {THINGS_MAX:,} in one component")
        self._thread = ConsumerThread("proxies")
        self._client = HttpClient()
        self._thread.closing.append(self._client.close)
        self._missing: list[ProxySettings] = []
        self._cancels: list[Callable[[], None]] = []

    def setup(self) -> None:
        """Read the descriptions, and add a thing for each."""
        self._thread.start()
        loop = self._thread.loop
        asked: list[Future[bytes] | None] = [
            asyncio.run_coroutine_threadsafe(self._client.describe(each.description, _remote(each)), loop)
            if each.is_url
            else None
            for each in self._settings
        ]
        until_s = loop.time() + START_S
        for each, future in zip(self._settings, asked, strict=True):
            try:
                data = _file(each.description) if future is None else future.result(max(0.0, until_s - loop.time()))
            except (BackplaneError, FutureTimeout, DescriptionError) as error:
                copied = self._instead(each, str(error) or f"no answer in {START_S:g} s", is_final=_is_final(error))
                if copied is None:
                    continue
                data, future = copied, None
            self._add(each, data, is_fetched=future is not None)

    def _instead(self, settings: ProxySettings, problem: str, *, is_final: bool) -> bytes | None:
        """The copy of a description that cannot be read; None: there is none. `is_final`: it will not be there later either."""
        copied = None
        if settings.copy and not is_final:
            with suppress(DescriptionError):
                copied = _file(settings.copy)
        if copied is not None:
            problem += "; its copy is used"
        elif settings.is_url and not is_final:
            self._missing.append(settings)
            problem += "; it is asked for again until it is there"
        log.error("proxy of %s: %s", settings.description, problem)
        return copied

    def _add(self, settings: ProxySettings, data: bytes, *, is_fetched: bool) -> None:
        """Add a thing, unless its description is wrong. `is_fetched`: by its URL, so that a copy is to be kept."""
        try:
            description = _description(settings, data)
            if is_fetched and settings.copy:
                _keep(settings.copy, data)
            if any(each.key == description.id for each in self.objects):
                raise DescriptionError(f"another proxy here has the id {description.id}")
            kind, binding = class_of(description), self._binding(settings, description.security)
        except (DescriptionError, DeclarationError) as error:
            log.error("proxy of %s: it is left out: %s", settings.description, error)
            return
        for each in description.left_out:
            log.warning("proxy of %s: left out: %s", settings.description, each)
        limits = ProxyLimits(settings.requests, settings.waiting, settings.max_age)
        self.add(kind(binding, limits, self._thread, settings.token_file), key=description.id)

    def _binding(self, settings: ProxySettings, security: Security) -> ProtocolBinding:
        """Raises `DescriptionError`."""
        if not settings.driver:
            return HttpBinding(self._client, _remote(settings, security))
        found = DriverBinding(driver_of(settings.driver, settings.options))
        self._thread.closing.append(found.close)
        return found

    def on_primary(self) -> None:
        """Read the streams, and ask for the missing descriptions."""
        for each in self.objects:
            assert isinstance(each, ConsumedThing)
            self._cancels += each.follow()
        if self._missing:
            self._cancels.append(self._thread.begin(self._ask_again(self._platform.run_dir, self._host.backplane)))

    def on_secondary(self) -> None:
        """Another replica reads the streams."""
        self._end_streams()

    def on_down(self) -> None:
        """End all requests."""
        self._end_streams()
        self._thread.stop(STOP_S)

    def _end_streams(self) -> None:
        for cancel in self._cancels:
            cancel()
        self._cancels.clear()

    async def _ask_again(self, run_dir: str, backplane: str) -> None:
        """In the consumer's thread: as soon as one of the missing descriptions is there, have this backplane restarted."""
        again_s = AGAIN_S
        while True:
            await self._thread.pause(again_s)
            again_s = min(2 * again_s, AGAIN_S_MAX)
            for each in self._missing:
                try:
                    data = await self._client.describe(each.description, _remote(each))
                    _description(each, data)
                    log.info("the description of %s is there: %s is restarted", each.description, backplane)
                    async with await connect_async(run_dir, timeout=RESTART_S) as client:
                        order = {"backplanes": [backplane], "rolling": False, "timeout": RESTART_S}
                        await client.call("supervisor.restart", arguments=order, timeout=RESTART_S, retry=False)
                except (BackplaneError, ValueError) as error:
                    log.debug("proxy of %s: %s", each.description, error)


def _settings(index: int, said: Mapping[str, Any]) -> ProxySettings:
    try:
        settings = msgspec.convert(said, ProxySettings)
    except msgspec.ValidationError as error:
        raise ValueError(f"things[{index}]: {error}") from None
    for each in settings.origins:
        if not origin_of(each):
            raise ValueError(
                f"things[{index}].origins: {each!r}: expected an origin, such as https://device.example:8443"
            )
    return msgspec.structs.replace(settings, origins=tuple(map(origin_of, settings.origins)))


def _remote(settings: ProxySettings, security: Security | None = None) -> Remote:
    """How a thing is reached; without `security`: its description, which a token protects as a rule."""
    if security is None:
        security = Security("bearer" if settings.token_file else "nosec")
    elif security.scheme == "nosec" or not settings.token_file:
        security = Security()
    return Remote(security, settings.token_file, settings.local)


def _description(settings: ProxySettings, data: bytes) -> ConsumedDescription:
    """Raises `DescriptionError`."""
    url = settings.description if settings.is_url else ""
    description = description_from(data, url, settings.origins, has_driver=bool(settings.driver))
    if description.security.scheme != "nosec" and not settings.token_file:
        raise DescriptionError(
            f"it asks for credentials ({description.security.scheme}): write them into a file, and name that as token_file"
        )
    return description


def _file(path: str) -> bytes:
    """Raises `DescriptionError`."""
    try:
        with open(Path(path).expanduser(), "rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise DescriptionError(f"{path}: {error.strerror}") from None
    if len(data) > FILE_BYTES_MAX:
        raise DescriptionError(f"{path}: more than {FILE_BYTES_MAX:,} bytes")
    return data


def _keep(path: str, data: bytes) -> None:
    """Keep a copy of a description. That it cannot be written is logged."""
    copy = Path(path).expanduser()
    written = copy.with_name(f"{copy.name}.new")
    try:
        written.write_bytes(data)
        os.replace(written, copy)
    except OSError as error:
        log.warning("copy = %r cannot be written: %s", path, error.strerror)


def _is_final(error: Exception) -> bool:
    """Whether it is no use to ask for a description again."""
    return isinstance(error, FailedPrecondition | DescriptionError)
