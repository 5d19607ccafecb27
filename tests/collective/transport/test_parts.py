"""Rules that need no connection: rails, balance, return after faults, settings."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglb.collective.transport import Settings, SettingsError, rails
from sglb.collective.transport.balance import may_take
from sglb.collective.transport.failback import Comeback
from sglb.collective.transport.failover import parse_tcp_info
from sglb.collective.transport.places import pair_rails
from sglb.collective.transport.rails import Rail, find_rails, parse_link_messages
from sglb.collective.transport.rendezvous import RailRecord


def rail(name: str, address: str) -> Rail:
    return Rail(name, address, name, 24)


def record(address: str) -> RailRecord:
    return RailRecord(address, address, 1)


def test_rails_of_one_network_are_paired_whatever_their_order() -> None:
    mine = [rail("a", "10.0.0.1"), rail("b", "10.0.1.1")]
    assert pair_rails(mine, (record("10.0.1.2"), record("10.0.0.2"))) == [(0, 1), (1, 0)]


def test_routed_rails_are_paired_by_number_and_none_is_left_out() -> None:
    mine = [rail("a", "10.0.0.1"), rail("b", "10.0.1.1")]
    theirs = (record("10.9.0.1"), record("10.9.1.1"), record("10.9.2.1"))
    assert pair_rails(mine, theirs) == [(0, 0), (1, 1), (0, 2)]
    assert pair_rails(mine, theirs[:1]) == [(0, 0), (1, 0)]


def message(kind: int, index: int, flags: int) -> bytes:
    body = struct.pack("=BxHiII", 0, 0, index, flags, 0)
    return struct.pack("=IHHII", 16 + len(body), kind, 0, 0, 0) + body


def test_link_messages_tell_the_carrier() -> None:
    data = message(16, 3, 0x41) + message(16, 4, 0x1) + message(99, 5, 0x41) + message(17, 6, 0x41)
    assert parse_link_messages(data) == [(3, True), (4, False), (6, False)]


@given(st.binary(max_size=200))
def test_any_bytes_from_netlink_are_survived(data: bytes) -> None:
    parse_link_messages(data)
    parse_link_messages(message(16, 3, 0x41) + data)


@given(st.binary(max_size=300))
def test_any_tcp_info_is_survived(data: bytes) -> None:
    assert parse_tcp_info(data).rtt_s >= 0


@dataclass
class Pace:
    inflight_bytes: int
    rate: float
    detour_bytes: int = -1


def test_a_slow_channel_leaves_the_last_chunk_to_a_fast_one() -> None:
    fast, slow = Pace(100, 100.0), Pace(0, 10.0)
    # Slow would need 10 s for 100; fast has 100 under way and sends the rest in 2 s.
    assert not may_take(slow, 100, 100, [fast, slow])
    assert may_take(fast, 100, 100, [fast, slow])
    # With 2,000 left fast alone would need 21 s: slow may well take some.
    assert may_take(slow, 100, 2000, [fast, slow])


def test_a_channel_of_unknown_rate_is_tried() -> None:
    assert may_take(Pace(0, 0.0), 100, 100, [Pace(0, 50.0)])


def test_a_way_through_a_neighbour_may_be_a_quarter_and_a_megabyte_ahead_of_the_median() -> None:
    mb = 1 << 20
    for ahead, may in ((6 * mb, True), (6 * mb + 1, False)):  # of 1.25 * 4 + 1
        first = Pace(0, 100.0, ahead)
        assert may_take(first, 10, 1000, [first, Pace(0, 0.0, 4 * mb), Pace(0, 0.0, 0)]) is may


@given(
    st.lists(
        st.builds(
            Pace,
            st.integers(0, 10**7),
            st.just(0.0) | st.floats(0.1, 1e9),
            st.just(-1) | st.integers(0, 1 << 40),
        ),
        min_size=1,
        max_size=8,
    ),
    st.integers(1, 16 << 20),
    st.integers(0, 10**8),
)
def test_never_do_all_channels_hold_back(channels: list[Pace], size: int, more: int) -> None:
    assert any(may_take(channel, size, size + more, channels) for channel in channels)


def test_probation_doubles_with_faults_and_is_forgotten_after_calm() -> None:
    chosen = Settings(probation_s=0.5, probation_max_s=4, retry_s=0.1, retry_max_s=1)
    slot = Comeback(chosen, 0.0)
    assert slot.probation_s() == 0
    found = []
    for now in (1.0, 2.0, 3.0, 4.0, 5.0):
        slot.lost(now)
        slot.opened(now + 0.2)
        found.append(slot.probation_s())
    assert found == [0.5, 1, 2, 4, 4]
    assert not slot.trusted(9.1)
    assert slot.trusted(9.3)
    slot.lost(20.0)  # 14.8 s of calm
    assert slot.probation_s() == 0.5


def test_attempts_pause_longer_each_time_up_to_a_limit() -> None:
    slot = Comeback(Settings(retry_s=0.1, retry_max_s=0.5), 0.0)
    slot.lost(10.0)
    pauses = [slot.next_try - 10.0]
    for _ in range(4):
        slot.failed(10.0)
        pauses.append(slot.next_try - 10.0)
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.5, 0.5])
    slot.hurry(10.0)
    assert slot.next_try == pytest.approx(10.1)


def test_settings_come_from_the_environment_and_options_win() -> None:
    environ = {
        "RECCL_RAILS": "eth0, eth1",
        "RECCL_DETECTION_S": "0.03",
        "RECCL_RELAY": "off",
        "RECCL_CHUNK_BYTES": "65536",
        "RECCLAIM": "somebody else's",
    }
    found = Settings.from_env(environ, chunk_bytes=8192)
    assert found.rails == ("eth0", "eth1")
    assert (found.detection_s, found.relay, found.chunk_bytes) == (0.03, False, 8192)


@pytest.mark.parametrize(
    ("environ", "options", "words"),
    [
        ({"RECCL_CHUNK_BYTES": "many"}, {}, "RECCL_CHUNK_BYTES=many: not a value of type int"),
        ({"RECCL_RELAY": "maybe"}, {}, "RECCL_RELAY=maybe"),
        ({"RECCL_DETECTION_S": "0"}, {}, r"RECCL_DETECTION_S is 0.0; it must be from 0.01 to 60"),
        ({"RECCL_RAILS": "a,a"}, {}, "names a rail twice"),
        ({}, {"speed": 1}, "no such setting: speed"),
        (
            {"RECCL_DETECTON_S": "1"},
            {},
            r"RECCL_DETECTON_S: no such setting; did you mean RECCL_DETECTION_S\?",
        ),
        ({"RECCL_42": "1"}, {}, r"RECCL_42: no such setting; docs/collective\.md lists them"),
    ],
)
def test_settings_that_make_no_sense_are_named(environ, options, words) -> None:
    with pytest.raises(SettingsError, match=words):
        Settings.from_env(environ, **options)


def test_an_interface_is_one_rail_whatever_addresses_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = [
        Rail("lo", "127.0.0.1", "lo", 8),
        Rail("eth0", "10.0.0.1", "eth0", 24),
        Rail("eth0", "2001:db8::1", "eth0", 64),
        Rail("eth1", "2001:db8:1::1", "eth1", 64),
        Rail("eth2", "10.0.2.1", "eth2", 24),
    ]
    monkeypatch.setattr(rails, "_addresses", lambda: iter(held))
    monkeypatch.setattr(rails, "_up", lambda device: device != "eth2")
    assert [rail.address for rail in find_rails(())] == ["10.0.0.1", "2001:db8:1::1"]
    named = find_rails(("2001:db8::1", "eth0"))
    assert [rail.address for rail in named] == ["2001:db8::1", "10.0.0.1"]
