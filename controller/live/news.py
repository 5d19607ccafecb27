"""What agents and controllers tell each other, where they are processes of their own.

An agent listens on a Unix socket; each controller connects. Lines of JSON: the agent says
`{"link": PORT, "state": "down" | "recovered", "cause": "carrier" | "beats"}`, first of links that are
marked now and then of each change; a controller says `{"clear": PORT}`. What is no such line is logged
and ignored.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from sglb.syncmesh.effects import Cause, LinkDown, LinkRecovered

_log = logging.getLogger(__name__)
_AGAIN_S = 0.1

LinkNews = LinkDown | LinkRecovered


def to_line(news: LinkNews) -> bytes:
    """News as a line."""
    match news:
        case LinkDown(port, cause):
            message: dict[str, Any] = {"link": port, "state": "down", "cause": str(cause)}
        case LinkRecovered(port):
            message = {"link": port, "state": "recovered"}
    return json.dumps(message).encode() + b"\n"


def from_line(line: bytes) -> LinkNews | None:
    """News from a line, None for anything else."""
    match _message(line):
        case {"link": int(port), "state": "down", "cause": str(cause)} if cause in set(Cause):
            return LinkDown(port, Cause(cause))
        case {"link": int(port), "state": "recovered"}:
            return LinkRecovered(port)
    return None


def clear_line(port: int) -> bytes:
    """The order to clear a link as a line."""
    return json.dumps({"clear": port}).encode() + b"\n"


def clear_from(line: bytes) -> int | None:
    """The port of an order to clear a link, None for anything else."""
    match _message(line):
        case {"clear": int(port)}:
            return port
    return None


def _message(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


class NewsServer:
    """The agent's side. `marked` gives what a controller that connects is told first."""

    def __init__(
        self,
        path: Path,
        marked: Callable[[], Iterable[LinkNews]],
        clear: Callable[[int], None],
    ) -> None:
        self._path = path
        self._marked = marked
        self._clear = clear
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listens, in place of an agent that was here before."""
        self._path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._serve, self._path)

    def close(self) -> None:
        """Listens no more, and lets go of who is connected."""
        if self._server is not None:
            self._server.close()
        for writer in self._writers:
            writer.close()

    def tell(self, news: LinkNews) -> None:
        """Tells all controllers."""
        for writer in self._writers:
            writer.write(to_line(news))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for news in self._marked():
            writer.write(to_line(news))
        self._writers.add(writer)
        try:
            async for line in reader:
                port = clear_from(line)
                if port is None:
                    _log.warning("a controller said %r", line[:80])
                else:
                    self._clear(port)
        except (ConnectionError, ValueError, asyncio.CancelledError):
            pass  # asyncio cancels it at the end, and would log that
        finally:
            self._writers.discard(writer)
            writer.close()


class NewsLink:
    """A controller's side: `run` keeps it connected, `on_news` hears what the agent says."""

    def __init__(self, path: Path, on_news: Callable[[LinkNews], None]) -> None:
        self._path = path
        self._on_news = on_news
        self._writer: asyncio.StreamWriter | None = None

    async def run(self) -> None:
        """Connects, again and again, until it is cancelled."""
        while True:
            with suppress(OSError, ValueError):
                reader, self._writer = await asyncio.open_unix_connection(self._path)
                try:
                    await self._listen(reader)
                finally:
                    self._writer.close()
                    self._writer = None
            await asyncio.sleep(_AGAIN_S)

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        async for line in reader:
            news = from_line(line)
            if news is None:
                _log.warning("%s said %r", self._path.stem, line[:80])
            else:
                self._on_news(news)

    def again(self) -> None:
        """Hears once more of all links that are marked, by connecting anew."""
        if self._writer is not None:
            self._writer.close()

    def clear(self, port: int) -> None:
        """Asks the agent to clear a link; lost when there is none, whose successor tells of it anew."""
        if self._writer is not None:
            self._writer.write(clear_line(port))
