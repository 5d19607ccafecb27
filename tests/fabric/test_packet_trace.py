"""Following one packet: which one it is, and what may change on its way."""

from __future__ import annotations

import pytest
from fabric_pipe import GATEWAY
from hypothesis import given
from hypothesis import strategies as st

from sglb.fabric import frames
from sglb.fabric import scenario as scenarios
from sglb.fabric.generators import leaf_spine
from sglb.fabric.packet_trace import TraceRequest, TraceRequestError
from sglb.fabric.roce import SEND_ONLY, Framer, Path
from sglb.fabric.topology import LinkSpec

SPEC = LinkSpec(100_000_000_000, 500_000)
TOPOLOGY = leaf_spine(2, 2, 2, SPEC, SPEC)


def framer(version: int, dest_qp: int = 0x123) -> Framer:
    ends = [TOPOLOGY.address(TOPOLOGY.host(name).id) for name in ("h0", "h2")]
    return Framer(Path(*ends, GATEWAY, 0xC001, version), dest_qp)


@pytest.mark.parametrize("version", [4, 6])
def test_a_packet_keeps_its_identity_while_switches_change_it(version: int) -> None:
    frame = framer(version).data(SEND_ONLY, 0xABCDEF, b"payload", False)
    # h2 is host 1 of switch 2: 10.0.2.1, fd53:474c:4200:2::1.
    address = {4: "0a000201", 6: "fd53474c420000020000000000000001"}[version]
    identity = bytes.fromhex(address + "000123" + "abcdef")
    assert frames.packet_identity(frame) == identity
    changed = bytearray(frame)
    changed[:12] = bytes(range(12))  # other MAC addresses
    for place in {4: (15, 22, 24, 25), 6: (14, 15, 21)}[version]:  # ECN, TTL, checksum
        changed[place] ^= 1
    assert frames.packet_identity(bytes(changed)) == identity


def test_other_packets_have_other_identities() -> None:
    first = framer(4).data(SEND_ONLY, 1, b"", False)
    assert frames.packet_identity(framer(4).data(SEND_ONLY, 2, b"", False)) != (
        frames.packet_identity(first)
    )
    other_queue_pair = framer(4, 0x124).data(SEND_ONLY, 1, b"", False)
    assert frames.packet_identity(other_queue_pair) != frames.packet_identity(first)
    assert frames.packet_identity(framer(4).ack(1, 1)) is None


@given(st.binary(max_size=80), st.sampled_from([b"\x08\x00", b"\x86\xdd", b"\x88\xb5"]))
def test_no_frame_is_too_odd_to_look_at(data: bytes, kind: bytes) -> None:
    identity = frames.packet_identity(data[:12] + kind + data[12:])
    assert identity is None or len(identity) <= 22


def test_a_request_is_read_from_text() -> None:
    assert TraceRequest.parse("h0:h5:3") == TraceRequest("h0", "h5", 3)
    assert TraceRequest.parse("a:b", every_step=True) == TraceRequest("a", "b", 1, True)


@given(st.text(max_size=20))
def test_any_text_is_a_request_or_refused(text: str) -> None:
    try:
        request = TraceRequest.parse(text)
    except TraceRequestError as error:
        assert "write SRC:DST:N" in str(error)  # noqa: PT017 - either is right
    else:
        assert request.number >= 1


@pytest.mark.parametrize("text", ["", "h0", "h0:h1:0", "h0:h1:x", "h0:h1:1:2", ":h1:1", "h0:h1:-1"])
def test_what_is_no_request_is_refused(text: str) -> None:
    with pytest.raises(TraceRequestError, match="write SRC:DST:N"):
        TraceRequest.parse(text)


def test_hosts_and_what_they_send_each_other_are_looked_up() -> None:
    flows = [{"src": "h0", "dst": "h3", "bytes": 1}]
    topology = {"leaf_spine": {"leaves": 2, "spines": 2, "hosts_per_leaf": 2}}
    scenario = scenarios.from_dict({"topology": topology, "workload": {"flows": flows}})
    TraceRequest("h0", "h3").check(scenario)
    TraceRequest().check(scenario)
    with pytest.raises(TraceRequestError, match="no host 'h9'"):
        TraceRequest("h0", "h9").check(scenario)
    for src, dst in (("h3", "h0"), ("h0", "h0"), ("h0", "h2")):
        with pytest.raises(TraceRequestError, match=f"{src} sends {dst} nothing in this workload"):
            TraceRequest(src, dst).check(scenario)
