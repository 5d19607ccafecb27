"""What a live fabric is made of, without one."""

from __future__ import annotations

import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglb.fabric import scenario as scenarios
from sglb.fabric.events import Event, SlowPathSaw, SlowPathTold, TableWritten
from sglb.fabric.live import packets
from sglb.fabric.live import run as live_run
from sglb.fabric.live.errors import LiveError
from sglb.fabric.live.figures import lost_packets
from sglb.fabric.live.folders import PREFIX, private_folder, sweep
from sglb.fabric.live.journal import Journal, read
from sglb.fabric.live.scaled import check_time, default_scale, patient, scaled
from sglb.fabric.live.traffic import Sent, TrafficResult, probe_frame, probe_number
from sglb.fabric.topology import HostAddress
from sglb.fabric.workers import JobsInterrupted
from sglb.switch.clock import PS_PER_S, PS_PER_US

LEAF_SPINE = {
    "topology": {"leaf_spine": {"leaves": 2, "spines": 2, "hosts_per_leaf": 1}},
    "workload": {"flows": [{"src": "h0", "dst": "h1", "bytes": 4096, "start_us": 3}]},
    "faults": [
        {"at_us": 5, "down": "leaf0-spine1"},
        {"at_us": 7, "rate": {"link": "leaf1-spine0", "gbps": 50}},
    ],
    "transport": {"rto_us": 200, "reorder_us": 50},
}  # fmt: skip


# --- scaled ---


def test_rates_are_divided_and_times_that_go_with_them_stretched() -> None:
    given = scenarios.from_dict(LEAF_SPINE)
    found = scaled(given, 1_000)
    assert {link.spec.rate_bps for link in found.topology.links} == {100_000_000}
    assert {link.spec.delay_ps for link in found.topology.links} == {0}
    assert [fault.time_ps for fault in found.faults] == [5_000 * PS_PER_US, 7_000 * PS_PER_US]
    assert found.faults[1].rate_bps == 50_000_000
    assert found.faults[0].links[0].spec.rate_bps == 100_000_000
    assert found.workload.flows[0].start_ps == 3_000 * PS_PER_US
    assert found.model.transport.rto_us == 200_000
    assert found.model.control_plane == given.model.control_plane
    assert found.model.live.rate_scale == 1_000


def test_a_link_that_is_slow_for_a_packet_makes_heartbeats_patient() -> None:
    # 4096 bytes of payload are 4182 on the wire: 3.35 ms at 10 Mbit/s, two heartbeats of 2 ms.
    slow = scaled(scenarios.from_dict(LEAF_SPINE), 10_000)
    fast = scaled(scenarios.from_dict(LEAF_SPINE), 10)
    assert (slow.model.syncmesh.missed_count, fast.model.syncmesh.missed_count) == (5 + 2, 5)


def test_the_scale_keeps_hosts_at_what_one_machine_can_follow() -> None:
    # One sender at 100 Gbit/s: 100e9 / (8 x 4182) = 2.99 million packets/s, 747 times 4000.
    assert default_scale(scenarios.from_dict(LEAF_SPINE)) == 1_000
    slow = LEAF_SPINE | {"links": {"host": {"rate_gbps": 0.1}}}
    assert default_scale(scenarios.from_dict(slow)) == 1


def test_bmv2_gets_what_it_can_follow() -> None:
    # 2.99 million packets/s are 9,964 times 300.
    found = patient(scenarios.from_dict(LEAF_SPINE)).model.live
    assert (found.rate_scale, found.probes_per_s, found.stop_s) == (10_000, 100, 300)
    assert (found.heartbeat_us, found.quality_sample_us) == (100_000, 100_000)
    own = {"rate_scale": 50_000, "probes_per_s": 10, "heartbeat_us": 500_000, "stop_s": 60}
    kept = patient(scenarios.from_dict(LEAF_SPINE | {"live": own})).model.live
    assert {name: getattr(kept, name) for name in own} == own


def test_rates_at_which_a_run_cannot_end_in_time_are_refused() -> None:
    slow = scaled(scenarios.from_dict(LEAF_SPINE), 1_000_000)  # given up after 60 s
    check_time(slow, 60 * PS_PER_S)
    with pytest.raises(
        LiveError, match=r"divided by 1,000,000 it takes 61 s at least, .* after 60 s"
    ):
        check_time(slow, 61 * PS_PER_S)


def test_an_interrupt_before_the_supervisor_has_its_job_ends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(job: object) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(live_run, "packed", interrupted)
    monkeypatch.setattr(live_run.namespaces, "why_not", lambda: "")
    job = live_run.LiveJob(None, ("glb",), None, "default", None, (), "live", None, Path())  # type: ignore[arg-type]
    with pytest.raises(JobsInterrupted):
        live_run.run_job(job)


def test_a_supervisor_without_all_of_a_job_ends_in_silence() -> None:
    command = [sys.executable, "-c", live_run._MAIN]
    for part in (b"", b"\x80\x05\x95\xff\x00\x00\x00\x00\x00\x00\x00"):
        done = subprocess.run(command, input=part, capture_output=True, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"transport": {"dcqcn": {"enabled": True}}}, "transport.dcqcn.enabled"),
        ({"faults": [{"at_us": 1, "bit_errors": {"link": "leaf0-spine0", "ber": 1e-6}}]}, "bit errors"),
    ],
)  # fmt: skip
def test_what_only_the_simulation_has_is_refused(keys: dict[str, object], named: str) -> None:
    with pytest.raises(LiveError, match=named):
        scaled(scenarios.from_dict(LEAF_SPINE | keys), 100)


# --- packets ---


def passes(program: packets.Program, frames: list[bytes]) -> list[bool]:
    """Which frames a filter lets through."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with here, there:
        there.setblocking(False)
        packets.filtered(there, program)
        found = []
        for frame in frames:
            here.send(frame)
            try:
                found.append(there.recv(2_000) == frame)
            except BlockingIOError:
                found.append(False)
        return found


def note(kind: int, code: int, ethertype: int = 0x88B5) -> bytes:
    frame = bytearray(60)
    frame[12:14] = ethertype.to_bytes(2, "big")
    frame[14] = 1 << 4 | kind
    frame[28] = code
    return bytes(frame)


def test_a_tap_takes_notifications_of_what_is_down_only() -> None:
    frames = [note(8, 8), note(8, 9), note(8, 0), note(9, 8), note(8, 8, 0x0800), b"\0" * 20]
    assert passes(packets.DOWN_NOTES, frames) == [True, False, False, False, False, False]


def test_a_black_hole_swallows_all_and_can_be_taken_away() -> None:
    assert passes(packets.SWALLOW, [note(8, 8), bytes(60)]) == [False, False]
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with here, there:
        packets.filtered(there, packets.SWALLOW)
        packets.filtered(there, None)
        packets.filtered(there, None)
        here.send(b"x")
        assert there.recv(1) == b"x"


def test_loss_is_of_a_kind_and_as_likely_as_asked() -> None:
    data, sync = [bytes(60)] * 200, [note(8, 0)] * 200
    assert passes(packets.losing(1.0, 0.0), data + sync) == [False] * 200 + [True] * 200
    assert passes(packets.losing(0.0, 1.0), data + sync) == [True] * 200 + [False] * 200
    # 2000 coins: 5 sigma are 112.
    assert abs(sum(passes(packets.losing(0.5, 0.0), [bytes(60)] * 2_000)) - 1_000) < 112


# --- probes ---


def test_a_probe_is_an_ipv4_packet_that_says_its_number() -> None:
    from ipaddress import IPv4Address, IPv6Address

    src = HostAddress(b"\x02" * 6, IPv4Address("10.0.1.1"), IPv6Address("::1"))
    dst = HostAddress(b"\x04" * 6, IPv4Address("10.0.2.1"), IPv6Address("::2"))
    frame = probe_frame(src, dst, b"\x06" * 6, 49_152, 77)
    assert frame[:14] == b"\x06" * 6 + b"\x02" * 6 + b"\x08\x00"
    words = struct.unpack("!10H", frame[14:34])
    assert sum(words) % 0xFFFF == 0
    assert struct.unpack("!HHH", frame[34:40]) == (49_152, 50_007, 16)
    assert probe_number(frame) == 77


@given(st.binary(max_size=80))
def test_no_other_frame_is_taken_for_a_probe(frame: bytes) -> None:
    if b"sglb" not in frame:
        assert probe_number(frame) is None


# --- figures ---


def result(
    copies: list[tuple[bytes, Sent]],
    arrivals: list[tuple[bytes, int]],
    probes: list[Sent],
    came: dict[int, int],
) -> TrafficResult:
    return TrafficResult(0, True, [], {}, copies, arrivals, probes, came, 0)


def test_an_arrival_stands_for_the_last_copy_sent_before_it() -> None:
    first, second, third = (Sent(t, 5, 6) for t in (10, 20, 30))
    found = lost_packets(
        result([(b"a", first), (b"a", second), (b"a", third)], [(b"a", 25)], [], {})
    )
    assert [lost.sent for lost in found] == [first, third]
    assert all(lost.data for lost in found)


def test_probes_that_did_not_come_are_lost_in_order_of_sending() -> None:
    probes = [Sent(t, 5, 6) for t in (1, 2, 3)]
    found = lost_packets(result([(b"a", Sent(2, 5, 6))], [], probes, {1: 9}))
    assert [(lost.sent.time_ps, lost.data) for lost in found] == [(1, False), (2, True), (3, False)]


# --- journals ---


def test_a_journal_tells_the_same_events_on_another_clock(tmp_path: Path) -> None:
    path = tmp_path / "x.events"
    journal = Journal(path, 5_000)
    for event in (SlowPathSaw(1_000_000, 3, False), TableWritten(2_000_000, 4, "controller", 7)):
        journal.append(event)
    journal.close()
    # What was at 1 us of a clock that began at 5 us is at 4 us of one that began at 2 us.
    found: list[Event] = [
        SlowPathSaw(4_000_000, 3, False),
        TableWritten(5_000_000, 4, "controller", 7),
    ]
    assert list(read(path, 2_000)) == found


@given(st.lists(st.binary(max_size=40)))
def test_what_is_no_event_in_a_journal_is_left_out(lines: list[bytes]) -> None:
    import tempfile

    with tempfile.NamedTemporaryFile(delete=False) as file:
        file.write(b'{"ns": 7, "kind": "SlowPathTold", "link_id": 1}\n')
        file.write(b"\n".join(line.replace(b"\r", b"") for line in lines))
    try:
        assert next(read(Path(file.name), 0)) == SlowPathTold(7_000, 1)
    finally:
        Path(file.name).unlink()


# --- folders ---

_HOLD = """
import sys, time
from sglb.fabric.live.folders import private_folder
with private_folder() as folder:
    print(folder, flush=True)
    time.sleep(60)
"""


def test_a_folder_is_private_and_gone_afterwards(tmp_path: Path) -> None:
    with private_folder(tmp_path / "kept") as folder:
        assert folder.stat().st_mode & 0o077 == 0
        (folder / "a.log").write_text("told")
    assert not folder.exists()
    assert (tmp_path / "kept" / "a.log").read_text() == "told"


def test_logs_that_find_no_room_do_not_cost_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    with private_folder(tmp_path / "file" / "glb") as folder:
        (folder / "agent.log").write_text("x")
    assert not folder.exists()
    assert f"not all logs are in {tmp_path}/file/glb: Not a directory" in caplog.text


def test_a_folder_goes_with_an_owner_that_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD], stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        folder = Path(owner.stdout.readline().strip())
        assert folder.is_dir()
        owner.send_signal(signal.SIGKILL)
    for _ in range(100):
        if not folder.exists():
            return
        time.sleep(0.05)
    raise AssertionError(f"{folder} is still there")


def test_folders_of_the_dead_are_swept_and_those_of_the_living_are_not(tmp_path: Path) -> None:
    dead = tmp_path / f"{PREFIX}dead"
    dead.mkdir()
    (dead / "lock").touch()
    other = tmp_path / "somebody-else"
    other.mkdir()
    with private_folder() as mine:
        (tmp_path / f"{PREFIX}link").symlink_to(mine)
        assert sweep(tmp_path) == [dead]
        assert mine not in sweep(mine.parent)
        assert mine.is_dir()
    assert other.is_dir()
