"""Passes over rows against the interpreter's blocks, on the project's own data plane program."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
from native_rows_kit import DATA_BYTES, NativePasses, ReferencePasses, Row, metadata_slots
from p4src_kit import (
    BEAT,
    DST,
    FABRIC_PORTS,
    GLB,
    HOST,
    NOTE,
    SPRAYING,
    Bench,
    heard,
    ip4,
    ip6,
    mode,
    note_body,
    notify,
    quality,
    subject,
    sync,
    watermark,
)

from sglb.p4.native import abi
from sglb.p4.random_stream import RandomStream

PS_PER_US = 10**6


def filled(modes: tuple[int, ...] = GLB) -> Bench:
    """A switch that measures, marks, hears of others and announces."""
    bench = Bench(rng=RandomStream(3))
    edges = (100, 200, 400, 800, 1600, 3200, 6400)
    bench.insert([quality(p, edges, subject=20 + p, queue_shift=6) for p in FABRIC_PORTS])
    bench.insert([watermark(p, c, 2, 12, 6000) for p in FABRIC_PORTS for c in range(8)])
    bench.insert([heard(DST, FABRIC_PORTS)], notify(FABRIC_PORTS))
    bench.insert(*(subject(20 + p, FABRIC_PORTS, names=p) for p in FABRIC_PORTS))
    bench.insert(mode(modes))
    return bench


def frames(rng: random.Random) -> Iterator[tuple[int, bytes]]:
    """Traffic of all kinds, some of it broken."""
    seq = 0
    while True:
        kind = rng.randrange(8)
        port = rng.choice([HOST, *FABRIC_PORTS])
        sport = rng.randrange(1 << 16)
        if kind < 3:
            frame = bytes(ip4(sport=sport, tos=rng.choice([0, 1, 2, 3])))
        elif kind == 3:
            frame = bytes(ip6(sport=sport, dport=rng.choice([4791, 80])))
        elif kind == 4:
            seq += 1
            body = note_body(DST, rng.randrange(16))
            frame = bytes(sync(NOTE, body, origin=100 + FABRIC_PORTS[0], seq=seq))
            port = FABRIC_PORTS[0]
        elif kind == 5:
            seq += 1
            frame = bytes(sync(BEAT, origin=100 + FABRIC_PORTS[0], seq=seq))
            port = FABRIC_PORTS[0]
        elif kind == 6:
            whole = bytes(ip4(sport=sport))
            frame = whole[: rng.randint(0, len(whole))]
        else:
            whole = bytearray(bytes(ip4(sport=sport)))
            whole[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
            frame = bytes(whole)
        yield port, frame


def registers(bench: Bench) -> list[list[int]]:
    return [list(register.values) for register in bench.switch.state.registers.values()]


@pytest.mark.parametrize("modes", [GLB, SPRAYING], ids=["best", "spray"])
def test_passes_equal_the_interpreters_blocks(modes: tuple[int, ...]) -> None:
    mine, theirs = filled(modes), filled(modes)
    native = NativePasses(mine.switch.state)
    reference = ReferencePasses(theirs.switch.state)
    row = Row(native.native)
    rng = random.Random(5)
    now_ps = 0
    for (port, data), _ in zip(frames(random.Random(4)), range(400), strict=False):
        now_ps += rng.randrange(40 * PS_PER_US)
        row.memory[abi.FRAME_BYTE : native.native.row_bytes] = 0xA5  # what an earlier packet left
        row.put(data, len(data), now_ps, INGRESS_PORT=port, PACKET_LENGTH=len(data))
        row.put(data, len(data), now_ps, INSTANCE_TYPE=0, FLAGS=0, TRUNCATE=77, CLONE=9)
        assert native.run("p4_ingress_pass", row) == 0
        context, parsed = reference.ingress(data, now_ps, port)
        assert row.slots() == reference.slots(native.native, context)
        frame, fields = context.frame, reference.fields
        got = [row.get(n) for n in ("EGRESS_SPEC", "MCAST_GRP", "PRIORITY", "PARSED_BYTES")]
        wanted = [frame[s] for s in (fields.egress_spec, fields.mcast_grp, fields.priority)]
        assert got == [*wanted, parsed]
        assert row.get("HEADER_BYTES") == reference.header_bytes(context)
        assert row.get("PAYLOAD_OFFSET") == context.payload_offset
        assert [row.get(n) for n in ("CLONE", "RESUBMIT", "TRUNCATE", "DIGESTS")] == [0] * 4
        if row.get("MCAST_GRP") or row.get("EGRESS_SPEC") == 511:
            continue
        _egress(native, reference, row, context, rng, now_ps)
    assert registers(mine) == registers(theirs)


def _egress(native, reference, row, context, rng, now_ps) -> None:
    frame, fields = context.frame, reference.fields
    depth, then_us = rng.choice([0, 1, 5, 11, 30, 1 << 20]), now_ps // PS_PER_US
    length = len(context.data) - row.get("PARSED_BYTES") + row.get("HEADER_BYTES")
    inputs = {
        "EGRESS_PORT": row.get("EGRESS_SPEC"),
        "INSTANCE_TYPE": 0,
        "PACKET_LENGTH": length,
        "EGRESS_RID": 0,
        "ENQ_TIME_US": then_us,
        "ENQ_QDEPTH": depth + 1,
        "DEQ_DELTA_US": 3,
        "DEQ_QDEPTH": depth,
    }
    context.now_ps = row.words[abi.NOW] = now_ps + 3 * PS_PER_US
    for name, value in inputs.items():
        row.ints[getattr(abi, name)] = value
    frame[fields.egress_port] = inputs["EGRESS_PORT"]
    frame[fields.egress_spec] = 0  # 511 + 1, cut to nine bits
    frame[fields.packet_length] = length
    frame[fields.egress_time] = then_us + 3
    frame[fields.enq_timestamp] = then_us
    frame[fields.enq_qdepth] = min(depth + 1, fields.enq_top)
    frame[fields.deq_timedelta] = 3
    frame[fields.deq_qdepth] = min(depth, fields.deq_top)
    context.clone = None
    assert native.run("p4_egress_pass", row) == 0
    reference.engine.egress(context)
    egress_spec = frame[fields.egress_spec]
    clone = context.clone_egress
    assert row.get("EGRESS_SPEC") == egress_spec
    assert row.get("CLONE") == (0 if clone is None else clone.session + 1)
    assert row.get("HEADER_BYTES") == reference.header_bytes(context)
    if egress_spec != 511:
        data = reference.engine.deparse(context)
        headers = row.out()
        assert headers + context.data[row.get("PAYLOAD_OFFSET") :] == data
    assert row.slots() == reference.slots(native.native, context)


def test_what_is_not_stored_reads_as_zeros() -> None:
    """A packet of a size, of which the first bytes are stored, is one with zeros behind them."""
    frame = bytes(ip4()) + bytes(300)
    results = []
    for stored in (80, len(frame)):
        bench = filled()
        native = NativePasses(bench.switch.state)
        row = Row(native.native)
        fields = {"INGRESS_PORT": HOST, "PACKET_LENGTH": len(frame), "INSTANCE_TYPE": 0, "FLAGS": 0}
        row.put(frame[:stored], len(frame), PS_PER_US, **fields)
        assert native.run("p4_ingress_pass", row) == 0
        row.put(frame[:stored], len(frame), PS_PER_US, EGRESS_PORT=row.get("EGRESS_SPEC"))
        assert native.run("p4_egress_pass", row) == 0
        results.append((row.slots(), row.out(), row.get("PAYLOAD_OFFSET")))
    assert results[0] == results[1]
    assert len(results[0][1]) == 54  # Ethernet, IPv4, UDP, BTH


def test_a_frame_that_the_caller_prepared_is_kept() -> None:
    native = NativePasses(filled().switch.state)
    row = Row(native.native)
    code = native.native.ir
    row.put(b"", 0, 5 * PS_PER_US, INGRESS_PORT=3, PACKET_LENGTH=60, INSTANCE_TYPE=6)
    row.ints[abi.FLAGS] = abi.FLAG_KEEP_FRAME
    first, _ = code.metadata
    kept = next(i for i in range(first, len(code.slots)) if code.slots[i].name == "meta.class")
    row.set_slot(kept, 5)
    native.run("p4_ingress_pass", row)
    assert row.slot(kept) == 5
    row.ints[abi.FLAGS] = 0
    native.run("p4_ingress_pass", row)
    assert row.slot(kept) == 0


def test_what_a_clone_starts_from() -> None:
    """The parse pass parses and nothing else; metadata is cleared, lists are preserved."""
    native = NativePasses(filled().switch.state)
    code = native.native.ir
    metadata = {slot for slot in metadata_slots(code) if native.native.outlives_a_pass(slot)}
    first, second = Row(native.native), Row(native.native)
    frame = bytes(ip4())
    for row in (first, second):
        row.put(frame, len(frame), PS_PER_US, INGRESS_PORT=HOST, PACKET_LENGTH=9, FLAGS=0)
    native.run("p4_parse_pass", second)
    assert second.get("PARSED_BYTES") == 54
    headers = second.slots()
    for slot in metadata:
        second.set_slot(slot, 1)
    native.run("p4_clear_metadata", second)
    assert all(second.slot(slot) == 0 for slot in metadata)
    cleared = second.slots()
    names = {f"{slot} {code.slots[slot].name}" for slot in metadata}
    assert {k: v for k, v in cleared.items() if k not in names} == {
        k: v for k, v in headers.items() if k not in names
    }
    number = native.native.preserve_lists.index(code.field_lists[1])
    for value, slot in enumerate(code.field_lists[1], start=3):
        first.set_slot(slot, value)
    native.preserve(first, second, number)
    for value, slot in enumerate(code.field_lists[1], start=3):
        assert second.slot(slot) == value
    kept = {f"{slot} {code.slots[slot].name}" for slot in code.field_lists[1]}
    changed = {k for k, v in second.slots().items() if v != cleared[k]}
    assert changed == kept


def test_a_batch_is_its_packets_one_after_the_other() -> None:
    packets = [next(frames(random.Random(seed))) for seed in range(60)]
    one, other = NativePasses(filled().switch.state), NativePasses(filled().switch.state)
    stride = Row(one.native).stride
    raw = np.zeros(stride * len(packets) + 64, dtype=np.uint8)
    start = -raw.ctypes.data % 64
    rows = []
    for i, (port, data) in enumerate(packets):
        row = Row(one.native)
        at = start + i * stride
        row.place(raw[at : at + stride])
        fields = {"INGRESS_PORT": port, "PACKET_LENGTH": len(data)}
        row.put(data[:DATA_BYTES], len(data), i * PS_PER_US, **fields)
        rows.append(row)
    batch = one.native.functions["p4_forward_batch"]
    batch(one.machine.ctypes.data, rows[0].address, stride, len(rows))
    sent = 0
    for i, (port, data) in enumerate(packets):
        row = Row(other.native)
        row.put(data, len(data), i * PS_PER_US, INGRESS_PORT=port, PACKET_LENGTH=len(data))
        other.run("p4_ingress_pass", row)
        if row.get("MCAST_GRP") or row.get("EGRESS_SPEC") == 511:
            assert rows[i].get("EGRESS_PORT") == -1
            continue
        sent += 1
        length = len(data) - row.get("PARSED_BYTES") + row.get("HEADER_BYTES")
        row.put(data, len(data), i * PS_PER_US, EGRESS_PORT=row.get("EGRESS_SPEC"))
        row.ints[abi.PACKET_LENGTH] = length
        other.run("p4_egress_pass", row)
        assert rows[i].out() == row.out()
        assert rows[i].slots() == row.slots()
    assert 20 < sent < 60
