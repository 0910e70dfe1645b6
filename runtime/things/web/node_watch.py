"""Node watch: keeps what a gateway knows of other nodes up to date, by long polling of their exposed things."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

import msgspec

from appbackplane.transport.async_client import AsyncClient
from appbackplane.transport.errors import BackplaneError, UnknownRoute

from ..nodes.consumed_node import ConsumedNode
from ..nodes.news import NodeNews, PublishedValues
from .mirror import Mirror, pause

#: Seconds for one answer: the node waits ten for news, and a dead node is told before.
ANSWER_S: Final = 20.0
#: Seconds after which a node that cannot be reached is asked again: at first, and at most.
AGAIN_S: Final = 0.1
AGAIN_S_MAX: Final = 1.0
#: The component that a node needs.
EXPOSED: Final = "appbackplane.runtime.things.nodes:ExposedThings"
log = logging.getLogger(__name__)


class NodeWatch:
    """Asks each of the nodes for its news. Used by one event loop."""

    def __init__(
        self,
        client: AsyncClient,
        nodes: Mapping[str, ConsumedNode],
        mirror: Mirror,
    ) -> None:
        self._client, self._nodes, self._mirror = client, nodes, mirror

    async def run(self, stopping: asyncio.Event) -> None:
        """Until the task is cancelled."""
        async with asyncio.TaskGroup() as group:
            for node in self._nodes.values():
                group.create_task(self._follow(node, stopping))

    async def _follow(self, node: ConsumedNode, stopping: asyncio.Event) -> None:
        again_s = AGAIN_S
        while True:
            try:
                await self._ask(node)
                again_s = AGAIN_S
            except (BackplaneError, msgspec.ValidationError) as error:
                self._fail(node, error)
                await pause(stopping, again_s)
                again_s = min(2 * again_s, AGAIN_S_MAX)
            except Exception:  # the edge: what another node says must not end the gateway
                log.exception("the news of node %r are not taken", node.name)
                await pause(stopping, AGAIN_S_MAX)

    async def _ask(self, node: ConsumedNode) -> None:
        body = await self._client.call(
            f"{node.name}/exposed.news",
            arguments={"known": msgspec.to_builtins(node.known)},
            timeout=ANSWER_S,
            retry=False,
        )
        news = msgspec.convert(body, NodeNews)
        was_lost = bool(node.problem)
        is_listed, messages = node.take(news)
        if was_lost:
            log.info("node %r is reached: it has %d things", node.name, len(node.things))
        if is_listed:
            self._mirror.take_things_of(node)
        if news.is_gap or was_lost:
            self._mirror.lose_messages_of(node)
            await self._take_values(node)
        for each in messages:
            self._mirror.take_of(node, each)

    async def _take_values(self, node: ConsumedNode) -> None:
        """Take what its things have published before, part by part. Changes since then come as news."""
        after, is_last = "", False
        while not is_last:
            arguments = {"after": after}
            body = await self._client.call(
                f"{node.name}/exposed.values", arguments=arguments, timeout=ANSWER_S, retry=False
            )
            part = msgspec.convert(body, PublishedValues)
            for each in node.messages_here(part.messages):
                self._mirror.keep_of(node, each)
            after, is_last = part.last, part.last <= after

    def _fail(self, node: ConsumedNode, error: Exception) -> None:
        problem = str(error)
        if isinstance(error, UnknownRoute):
            problem += f" (does it expose its things, by {EXPOSED} in one of its backplanes?)"
        if problem != node.problem:
            log.warning("the things of node %r cannot be reached: %s", node.name, problem)
        node.problem = problem
