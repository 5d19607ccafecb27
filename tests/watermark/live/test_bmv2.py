"""What the tuner has of BMv2: its Thrift interface, what Linux counts at its ports, marking alone."""

from __future__ import annotations

import json
import shutil
import socket
import struct
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglb.cli import main
from sglb.fabric import scenario as scenarios
from sglb.fabric.live import namespaces
from sglb.fabric.live.errors import LiveError
from sglb.fabric.live.scaled import check, patient, scaled
from sglb.watermark.live.bmv2 import Bmv2Switch, Interfaces, counted
from sglb.watermark.live.errors import LiveTuneError
from sglb.watermark.live.session import LiveOptions, ecn_space, without_pauses
from sglb.watermark.live.thrift import I64, ThriftClient
from sglb.watermark.objective import Weights
from sglb.watermark.telemetry.reading import WHOLE, Field

EXAMPLE = Path(__file__).parents[3] / "examples" / "tune" / "bmv2-incast.yaml"
TOOLS = ("p4c-bm2-ss", "simple_switch_grpc")
MISSING = ", ".join(tool for tool in TOOLS if shutil.which(tool) is None)
WHY_NOT = f"{MISSING} is not on PATH" if MISSING else namespaces.why_not()

#: What BMv2 1.15.5 answered to `simple_switch:set_egress_queue_rate`, and to a register it has not.
DONE = b"\x80\x01\x00\x02\0\0\0\x15set_egress_queue_rate\0\0\0\x01\x08\0\0\0\0\0\0\0"
NO_REGISTER = (
    b"\x80\x01\x00\x02\0\0\0\x10bm_register_read\0\0\0\x01\x0c\0\x01\x08\0\x01\0\0\0\x01\0\0"
)
NO_METHOD = (
    b"\x80\x01\x00\x03\0\0\0\nbm_nothing\0\0\0\x01\x0b\0\x01\0\0\0\x21Invalid method name: 'bm_nothing'"
    b"\x08\0\x02\0\0\0\x01\0"
)


def asked(answer: bytes, method: str, *arguments: int | str) -> tuple[int | None, bytes]:
    """What a call comes to where this is answered, and what it sent."""
    here, there = socket.socketpair()
    with here, there:
        there.sendall(answer)
        there.shutdown(socket.SHUT_WR)
        client = ThriftClient("leaf0", here)
        found = client.call(method, *arguments)
        there.settimeout(5)
        sent = there.recv(1 << 16)
        assert client.bytes == len(sent) + len(answer)
        return found, sent


def test_a_call_as_thrift_has_it() -> None:
    found, sent = asked(DONE, "simple_switch:set_egress_queue_rate", 3, I64(60))
    assert found == 0
    assert sent == (
        b"\x80\x01\0\x01\0\0\0\x23simple_switch:set_egress_queue_rate\0\0\0\x01"
        b"\x08\0\x01\0\0\0\x03"  # field 1, 32 bits
        b"\x0a\0\x02\0\0\0\0\0\0\0\x3c"  # field 2, 64 bits
        b"\0"
    )
    answer = b"\x80\x01\0\x02\0\0\0\x01m\0\0\0\x01\x0a\0\0" + struct.pack("!q", 1 << 40) + b"\0"
    found, sent = asked(answer, "s:m", "a")
    assert found == 1 << 40
    assert sent.endswith(b"\x0b\0\x01\0\0\0\x01a\0")


@pytest.mark.parametrize(
    ("answer", "method", "text"),
    [
        (NO_REGISTER, "standard:bm_register_read", "leaf0: bm_register_read: it was refused"),
        (NO_METHOD, "standard:bm_nothing", "Invalid method name: 'bm_nothing'"),
        (DONE, "simple_switch:another", "an answer that is none to another"),
        (DONE[:-3], "simple_switch:set_egress_queue_rate", "ended in the middle of an answer"),
        (b"\x80\x01\0\x02\xff\xff\xff\xff", "s:m", "a text of 4294967295 bytes"),
    ],
)
def test_what_is_no_answer_is_told(answer: bytes, method: str, text: str) -> None:
    with pytest.raises(LiveTuneError, match=text):
        asked(answer, method)


@given(
    at=st.integers(0, len(NO_METHOD)),
    data=st.binary(max_size=20),
    drop=st.integers(0, 20),
    base=st.sampled_from([DONE, NO_REGISTER, NO_METHOD]),
)
def test_any_answer_is_taken_or_refused(at: int, data: bytes, drop: int, base: bytes) -> None:
    with suppress(LiveTuneError):
        asked(base[:at] + data + base[at + drop :], "standard:bm_register_read")


NET_DEV = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls
    lo:       0       0    0    0    0     0          0         0        0       0    0    0    0     0
    p1: 1000000     250    0    0    0     0          0         0   200000      50    0    0    0     0
    p2:  300000      75    0    0    0     0          0         0   800000     200    0    0    0     0
"""


def test_what_linux_counts() -> None:
    assert counted(NET_DEV, (1, 2)).tolist() == [
        [1_000_000, 250, 200_000, 50],
        [300_000, 75, 800_000, 200],
    ]


class _Client:
    """A P4Runtime client whose switch counts what it is told; nothing else of one is asked for."""

    def __init__(self) -> None:
        self.packets = {1: 0, 2: 0}

    def read(self, _entity: object) -> list[object]:
        class Entry:
            def __init__(self, port: int, cls: int, packets: int) -> None:
                self.match = {"port": port, "class": cls}
                self.counter_data = type("Count", (), {"packet_count": packets})()

        return [Entry(p, cls, n) for p, n in self.packets.items() for cls in (0, 3)]


class _Thrift:
    bytes = 0

    def __init__(self) -> None:
        self.waited = {1: 0, 2: 0}
        self.calls: list[tuple[object, ...]] = []

    def call(self, method: str, *arguments: int) -> int:
        self.calls.append((method, *arguments))
        return self.waited[arguments[2]] if method == "standard:bm_register_read" else 0


def test_an_interval_is_what_grew_and_depths_are_means_over_packets(tmp_path: Path) -> None:
    path = tmp_path / "dev"
    path.write_text(NET_DEV)
    client, thrift = _Client(), _Thrift()
    with path.open() as file:
        switch = Bmv2Switch("a", client, thrift, Interfaces(file, (1, 2)), (1, 2), 3)  # type: ignore[arg-type]
        switch.shape({1: 60, 2: 120}, 512)
        assert thrift.calls == [
            ("simple_switch:set_egress_queue_depth", 1, 512),
            ("simple_switch:set_egress_queue_rate", 1, 60),
            ("simple_switch:set_egress_queue_depth", 2, 512),
            ("simple_switch:set_egress_queue_rate", 2, 120),
        ]
        switch.begin()
        path.write_text(NET_DEV.replace("1000000     250", "1040000     260"))
        client.packets[2], thrift.waited[2] = 20, 150
        found = switch.view(4_096)
    assert found.ports == (1, 2)
    assert found.values[0, WHOLE, Field.RECEIVED_BYTES] == 40_000
    assert found.values[0, WHOLE, Field.RECEIVED_PACKETS] == 10
    assert found.values[1, 3, Field.QUEUE_MEAN_BYTES] == 30_720  # 7.5 packets of 4,096
    assert found.values[0, 3, Field.QUEUE_MEAN_BYTES] == 0
    assert np.count_nonzero(found.values) == 3


def test_the_example_as_bmv2_has_it() -> None:
    scenario = scenarios.load(EXAMPLE)
    with pytest.raises(LiveError, match=r"switch\.buffer\.total_bytes"):
        check(scenario, "bmv2")
    slow = patient(scenario)
    assert slow.model.live.rate_scale is not None
    real = scaled(without_pauses(slow), slow.model.live.rate_scale, "bmv2")
    assert not real.buffer.pfc
    assert real.model.switch.queue_bytes == 16_777_216
    assert real.model.transport.dcqcn.enabled
    with pytest.raises(LiveError, match=r"transport.traffic_class: the live fabric does not"):
        check(without_pauses(scenario), "live")
    space, given = ecn_space(scenario)
    # Marking alone: no rule of pauses, and nothing else to move.
    assert space.why_not(given) is None
    free = {p.name for p in space.parameters if len(p.levels) > 1}
    assert free == {"kmin_bytes", "kmax_bytes", "pmax"}
    names = [p.name for p in space.parameters]
    high = list(given)
    high[names.index("kmin_bytes")] = len(space.parameters[0].levels) - 1
    high[names.index("kmax_bytes")] = 0
    assert space.why_not(tuple(high)) == "Kmin above Kmax"
    options = LiveOptions(weights=Weights(0.5, 0.3, 0.2), target="bmv2")
    assert options.judging() == Weights(0.5, 0.3, 0.0)
    assert LiveOptions(weights=Weights(0.5, 0.3, 0.2)).judging() == Weights(0.5, 0.3, 0.2)


@pytest.mark.skipif(bool(MISSING), reason=f"{MISSING} is not on PATH")
def test_a_real_bmv2_answers(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = ["simple_switch_grpc", "--no-p4", "--thrift-port", str(port), "-L", "off"]
    command += ["--", "--grpc-server-addr", f"unix:{tmp_path}/grpc.sock"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end_s = time.monotonic() + 60
        while True:
            with suppress(OSError):
                connection = socket.create_connection(("127.0.0.1", port))
                break
            assert process.poll() is None
            assert time.monotonic() < end_s
            time.sleep(0.05)
        client = ThriftClient("bmv2", connection)
        assert client.call("simple_switch:set_egress_queue_rate", 1, I64(60)) == 0
        assert client.call("simple_switch:set_egress_queue_depth", 1, 512) == 0
        with pytest.raises(LiveTuneError, match="bmv2: bm_register_read: it was refused"):
            client.call("standard:bm_register_read", 0, "no.such", 1)
        client.close()
    finally:
        process.kill()
        process.wait(timeout=10)


@pytest.mark.live
@pytest.mark.alone
@pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
def test_bmv2_is_tuned_while_packets_run(tmp_path: Path, capsys) -> None:
    path, told, drawn = tmp_path / "small.yaml", tmp_path / "told.json", tmp_path / "page.html"
    path.write_text(EXAMPLE.read_text().replace("bytes: 4000000}", "bytes: 300000}"))
    command = ["tune", str(path), "--on", "bmv2", "--json", str(told), "--html", str(drawn)]
    with pytest.raises(SystemExit) as ended:
        main(command)
    out, err = capsys.readouterr()
    assert not ended.value.code, err
    assert "BMv2 has neither pauses nor a shared buffer: their weight is 0" in out
    found = json.loads(told.read_text())
    fixed, tuned = found["fixed"], found["tuned"]
    assert fixed["report"]["completed"]
    assert tuned["report"]["completed"]
    assert fixed["report"]["live"]["target"] == "bmv2"
    steps = tuned["tuner"]["steps"]
    assert len(steps) > 3
    assert len({tuple(step["place"]) for step in steps}) > 1
    # BMv2's queues are seen: three senders make one of some 100 packets before anything is marked.
    seen = [one for one in fixed["tuner"]["seen"] if one["load"]]
    assert max(one["fan_in"] for one in seen) >= 2.0
    assert min(one["delay"] for one in seen) < 0.3
    assert all(one["unpaused"] == 1.0 for one in seen)
    ports = found["ports"]
    assert [p["switch"] for p in ports] == ["leaf0"] * 3 + ["leaf1"] * 3 + ["spine0"] * 2
    for port in ports:
        assert port["kmin_bytes"] == found["last"]["kmin_bytes"] // 4_096 * 4_096
        assert port["alpha"] is port["headroom_bytes"] is None
    assert drawn.read_text().count("<svg") == 2


def test_without_bmv2_it_says_what_is_missing(monkeypatch, capsys) -> None:
    if namespaces.why_not():
        pytest.skip(namespaces.why_not())
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SystemExit):
        main(["tune", str(EXAMPLE), "--on", "bmv2"])
    assert "--on bmv2: p4c-bm2-ss is not on PATH" in capsys.readouterr().err
