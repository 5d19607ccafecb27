"""What agents and controllers tell each other over a socket."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.live.news import (
    LinkNews,
    NewsLink,
    NewsServer,
    clear_from,
    clear_line,
    from_line,
    to_line,
)
from sglb.syncmesh.effects import Cause, LinkDown, LinkRecovered

NEWS: list[LinkNews] = [LinkDown(3, Cause.BEATS), LinkDown(4, Cause.CARRIER), LinkRecovered(3)]


@pytest.mark.parametrize("news", NEWS)
def test_news_come_out_of_a_line_as_they_went_in(news: LinkNews) -> None:
    assert to_line(news).endswith(b"\n")
    assert from_line(to_line(news)) == news


def test_an_order_comes_out_of_a_line_as_it_went_in() -> None:
    assert clear_line(7) == b'{"clear": 7}\n'
    assert clear_from(clear_line(7)) == 7


@given(st.binary(max_size=60))
def test_other_lines_are_neither(line: bytes) -> None:
    if b'"link"' not in line:
        assert from_line(line) is None
    if b'"clear"' not in line:
        assert clear_from(line) is None


@pytest.mark.parametrize(
    "line",
    [
        b'{"link": "3", "state": "down", "cause": "beats"}',
        b'{"link": 3, "state": "down", "cause": "magic"}',
        b'{"link": 3, "state": "down", "cause": []}',
        b'{"link": 3, "state": "up"}',
        b"[" * 100_000,
    ],
)
def test_lines_that_only_look_like_news_are_none(line: bytes) -> None:
    assert from_line(line) is None


def test_who_connects_hears_what_is_marked_and_then_what_changes(tmp_path: Path) -> None:
    async def run() -> tuple[list[LinkNews], list[int]]:
        cleared: list[int] = []
        heard: list[LinkNews] = []
        server = NewsServer(tmp_path / "agent.sock", lambda: NEWS[:1], cleared.append)
        await server.start()
        link = NewsLink(tmp_path / "agent.sock", heard.append)
        running = asyncio.create_task(link.run())
        async with asyncio.timeout(30):
            while not heard:
                await asyncio.sleep(0.01)
            server.tell(NEWS[2])
            link.clear(3)
            while len(heard) < 2 or not cleared:
                await asyncio.sleep(0.01)
            link.again()  # connects anew, and hears of marked links once more
            while len(heard) < 3:
                await asyncio.sleep(0.01)
        running.cancel()
        server.close()
        await asyncio.gather(running, return_exceptions=True)
        await asyncio.sleep(0.05)
        return heard, cleared

    heard, cleared = asyncio.run(run())
    assert heard == [NEWS[0], NEWS[2], NEWS[0]]
    assert cleared == [3]
