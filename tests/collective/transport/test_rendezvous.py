"""Records in the store, and ranks that do not come."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transport_kit import DictStore, settings

from sglb.collective.transport import RendezvousError, SettingsError, Transport
from sglb.collective.transport.rendezvous import RailRecord, own_record, parse_record
from sglb.collective.transport.wire import VERSION

RECORD = own_record(3, "host", "/run/x.door", "0a", [RailRecord("eth0", "10.0.0.1", 1234)])


def test_records_come_back() -> None:
    assert parse_record(RECORD.to_json().encode(), 3) == RECORD


@given(
    st.binary(max_size=300)
    | st.recursive(st.none() | st.integers() | st.text(max_size=5), st.lists, max_leaves=5).map(
        lambda value: json.dumps(value).encode()
    )
)
def test_any_other_record_is_one_clear_error(data: bytes) -> None:
    with pytest.raises(RendezvousError, match="the record of rank 3"):
        parse_record(data, 3)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": VERSION + 1}, rf"rank 3 speaks version {VERSION + 1} .* this one {VERSION}"),
        ({"rank": 4}, "is of rank 4"),
        ({"rails": []}, "with 0 rails"),
        ({"rails": [{"name": "a", "address": "b", "port": 70_000}]}, "port out of range"),
        ({"pid": "x"}, "makes no sense"),
    ],
)
def test_what_is_wrong_is_said(change: dict[str, object], words: str) -> None:
    fields = {**json.loads(RECORD.to_json()), **change}
    with pytest.raises(RendezvousError, match=words):
        parse_record(json.dumps(fields).encode(), 3)


def test_a_rank_that_does_not_come_is_named() -> None:
    with pytest.raises(RendezvousError, match=r"rank 1 has not appeared .* within 0\.05 s"):
        Transport.open(DictStore(), 0, 2, settings=settings(1), timeout_s=0.05)


class FailingStore(DictStore):
    """Its process ends, or the user presses Ctrl-C, while this rank asks for another."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self._error = error

    def check(self, keys: list[str]) -> bool:
        raise self._error


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (
            RuntimeError("Broken pipe\nframes"),
            RendezvousError,
            "store does not answer: Broken pipe$",
        ),
        (KeyboardInterrupt(), KeyboardInterrupt, "^$"),
    ],
)
def test_a_rank_that_gives_up_in_the_rendezvous_leaves_nothing(
    tmp_path: Path, error: BaseException, kind: type[BaseException], words: str
) -> None:
    chosen = settings(1, shared_memory=True, runtime_dir=str(tmp_path))
    with pytest.raises(kind, match=words):
        Transport.open(FailingStore(error), 0, 2, settings=chosen, timeout_s=20)
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_cannot_be_written_to_is_told() -> None:
    class Gone(DictStore):
        def add(self, key: str, amount: int) -> int:
            raise RuntimeError("Connection reset by peer")

    with pytest.raises(
        RendezvousError, match="rank 0 cannot use the group's store: Connection res"
    ):
        Transport.open(Gone(), 0, 2, settings=settings(1), timeout_s=5)


def test_a_rank_of_another_version_is_named() -> None:
    store = DictStore()
    other = {**json.loads(RECORD.to_json()), "rank": 1, "version": 99}
    store.set("reccl/default/1/rank/1", json.dumps(other))
    with pytest.raises(RendezvousError, match="rank 1 speaks version 99"):
        Transport.open(store, 0, 2, settings=settings(1), timeout_s=5)


def test_rails_that_are_not_here_are_named() -> None:
    for name, words in (
        ("nosuch0", "neither an address nor an interface"),
        ("192.0.2.1", "no interface"),
    ):
        with pytest.raises(SettingsError, match=words):
            Transport.open(
                DictStore(), 0, 1, settings=settings(rails=1).__class__(rails=(name,)), timeout_s=1
            )


def test_a_group_of_one_needs_nobody() -> None:
    transport = Transport.open(DictStore(), 0, 1, settings=settings(1), timeout_s=5)
    with pytest.raises(ValueError, match="rank 0 is no peer of rank 0"):
        transport.send(0, 0, b"x")
    transport.close()
