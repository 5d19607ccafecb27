"""The entry points of a program (see `abi`), written around its blocks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from sglb.p4 import ir
from sglb.p4.interp_parser import STATE_LIMIT
from sglb.p4.native import abi
from sglb.p4.native.emit_packet import packet_bytes
from sglb.p4.native.emit_stmt import PARAMETERS, proc_body, zero_bytes
from sglb.p4.native.text import Function
from sglb.p4.native.unit import ERROR, POSITION, STEPS, Body, Ending, Exits, Unit
from sglb.p4.native.usage import BLOCKS

#: Entry point of each block.
ENTRIES: Final = {
    "parser": "p4_parse",
    "verify_checksum": "p4_verify_checksum",
    "ingress": "p4_ingress",
    "egress": "p4_egress",
    "compute_checksum": "p4_compute_checksum",
    "deparser": "p4_deparse",
}
#: Other entry points.
PASSES: Final = (
    "p4_ingress_pass",
    "p4_parse_pass",
    "p4_egress_pass",
    "p4_clear_metadata",
    "p4_preserve",
    "p4_forward_batch",
)

_PS_PER_US: Final = 1_000_000


def emit_blocks(unit: Unit) -> None:
    """Writes the program's blocks as functions that give 0, or another number after a failure."""
    for block in BLOCKS:
        _block(unit, block)


def _block(unit: Unit, block: str) -> None:
    fn = Function(f"define internal i8 @block_{block}({PARAMETERS}) nounwind")
    done, failed = fn.label("done"), fn.label("failed")
    body = Body(unit, block, fn, Exits(done, done, done, failed))
    size = unit.memory_bytes(block)
    fn.start(f"%v = alloca [{size} x i8], align 16")
    if size:
        fn.start(f"call void @llvm.memset.p0.i64(ptr %v, i8 0, i64 {size}, i1 false)")
    digests = any(i.kind is ir.InstanceKind.DIGEST for i in unit.program.instances)
    used_at = body.address("%m", 8 * abi.DIGEST_USED)
    used = fn.op(f"load i64, ptr {used_at}, align 8") if digests else ""
    _before(body)
    proc_body(body, unit.program.procs[getattr(unit.program, block)])
    fn.place(done)
    _after(body)
    fn.leave(f"i8 {int(Ending.DONE)}")
    fn.place(failed)
    if digests:
        fn.do(f"store i64 {used}, ptr {used_at}, align 8")
        body.store_row(abi.DIGESTS, "0")
    fn.leave(f"i8 {int(Ending.FAILED)}")
    unit.functions.append(fn.text())


def _before(body: Body) -> None:
    if body.block == "parser" and body.unit.cyclic:
        end = body.shifted_left(packet_bytes(body, abi.LENGTH), 64, 3)
        body.store(STEPS, body.fn.op(f"add i64 {end}, {STATE_LIMIT}"))


def _after(body: Body) -> None:
    if body.block == "parser":
        _end_parse(body)
    elif body.block == "deparser":
        end = body.load(POSITION)
        if body.unit.unaligned:
            end = body.shifted_right(body.fn.op(f"add i64 {end}, 7"), 64, 3)
        body.store_row(abi.OUT_LENGTH, body.resized(end, 64, 32))


def _end_parse(body: Body) -> None:
    fn = body.fn
    error = body.load(ERROR)
    with body.when(fn.op(f"icmp ne i32 {error}, 0"), "error"):
        body.store(body.program.standard_metadata["parser_error"], error)
    end = body.load(POSITION)
    if body.unit.unaligned:
        end = body.shifted_right(fn.op(f"add i64 {end}, 7"), 64, 3)
    body.store_row(abi.PAYLOAD_OFFSET, body.resized(end, 64, 32))
    body.store_row(abi.PARSED_BYTES, header_bytes(body))


def header_bytes(body: Body) -> str:
    """The bytes of the valid headers that the packet consists of (i32)."""
    fn, program = body.fn, body.program
    first, count = program.headers_out
    total = "0"
    for header in program.headers:
        if not first <= header.valid < first + count:
            continue
        size = str(header.width // 8)
        for field in header.fields:
            if field.varbit:
                more = body.shifted_right(body.load(field.slot + 1), 32, 3)
                size = fn.op(f"add i32 {size}, {more}")
        part = fn.op(f"select i1 {body.load(header.valid)}, i32 {size}, i32 0")
        total = part if total == "0" else fn.op(f"add i32 {total}, {part}")
    return total


# --- entry points ---------------------------------------------------------------------------------


def emit_entries(unit: Unit) -> None:
    """Writes all entry points."""
    for block in BLOCKS:
        _entry(unit, ENTRIES[block], partial(_run_block, block=block), alone=True)
    _entry(unit, "p4_ingress_pass", _ingress_pass)
    _entry(unit, "p4_parse_pass", _parse_pass)
    _entry(unit, "p4_egress_pass", _egress_pass)
    _entry(unit, "p4_clear_metadata", _clear_metadata)
    _preserve(unit)
    unit.functions.append(_BATCH)


def _entry(unit: Unit, name: str, write: Callable[[Body], None], *, alone: bool = False) -> None:
    """An entry point; the memory of a pass lies behind the frame for a block that runs `alone`."""
    layout = unit.layout
    whole = layout.pass_at + layout.pass_bytes if alone else abi.FRAME_BYTE + layout.frame_bytes
    fn = Function(
        f"define void @{name}(ptr noalias captures(none) align 8 %m, "
        f"ptr noalias captures(none) align {abi.ROW_ALIGN} dereferenceable({whole}) %r) nounwind"
    )
    end = fn.label("end")
    body = Body(unit, "", fn, Exits(end, end, end, end))
    if alone:
        fn.start(f"%s = getelementptr inbounds i8, ptr %r, i64 {layout.pass_at}")
    else:
        fn.start(f"%s = alloca [{layout.pass_bytes} x i8], align 16")
        zero_bytes(body, "%s", layout.pass_bytes)
    write(body)
    fn.place(end)
    fn.leave("void")
    unit.functions.append(fn.text())


def _call_block(body: Body, block: str) -> None:
    """Runs a block; after a failure the entry point ends."""
    fn = body.fn
    failed = fn.op(f"call i8 @block_{block}(ptr %m, ptr %r, ptr %s)")
    go_on = fn.label("next")
    fn.branch(fn.op(f"icmp eq i8 {failed}, 0"), go_on, body.exits.on_fail)
    fn.place(go_on)


def _run_block(body: Body, block: str) -> None:
    body.store_row(abi.STATUS, "0")
    body.store_row(abi.DIGESTS, "0")
    _call_block(body, block)
    if block in ("ingress", "egress"):
        body.store_row(abi.HEADER_BYTES, header_bytes(body))


class _Standard:
    """Writes and reads standard_metadata, where the program has the field."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self._slots = body.program.standard_metadata

    def put(self, name: str, text: str, width: int, *, capped: bool = False) -> None:
        """Sets a field to a value, cut to its width or, if `capped`, at most its largest."""
        body, slot = self._body, self._slots.get(name)
        if slot is None:
            return
        own = body.width(slot)
        if capped and own < width:
            least = f"@llvm.umin.i{width}"
            top = (1 << own) - 1
            text = body.fn.op(f"call i{width} {least}(i{width} {text}, i{width} {top})")
        body.store(slot, body.resized(text, width, own))

    def put_row(self, name: str, index: int, *, capped: bool = False) -> None:
        """Sets a field to an int32 of the row's head."""
        self.put(name, self._body.load_row(index), 32, capped=capped)

    def get(self, name: str) -> str:
        """A field as an i32; 0 where the program lacks it."""
        slot = self._slots.get(name)
        if slot is None:
            return "0"
        return self._body.resized(self._body.load(slot), self._body.width(slot), 32)

    def put_now(self, name: str) -> None:
        """Sets a field to the time in microseconds."""
        now = self._body.fn.op(f"udiv i64 {self._body.load_word(abi.NOW)}, {_PS_PER_US}")
        self.put(name, now, 64)


def _clear_requests(body: Body, *names: int) -> None:
    for name in (abi.STATUS, abi.DIGESTS, abi.CLONE, abi.CLONE_LIST, abi.RESUBMIT, *names):
        body.store_row(name, "0")


def _enter(body: Body, *, whole: bool) -> None:
    """Clears the frame and sets what a packet comes with, unless the caller did."""
    fn = body.fn
    _clear_requests(body, abi.RECIRCULATE, abi.TRUNCATE)
    standard = _Standard(body)
    flags = fn.op(f"and i32 {body.load_row(abi.FLAGS)}, {abi.FLAG_KEEP_FRAME}")
    with body.when(fn.op(f"icmp eq i32 {flags}, 0"), "fresh"):
        zero_bytes(body, body.address("%r", abi.FRAME_BYTE), body.unit.layout.frame_bytes)
        standard.put_row("ingress_port", abi.INGRESS_PORT)
        if whole:
            standard.put_now("ingress_global_timestamp")
    if whole:
        standard.put_row("packet_length", abi.PACKET_LENGTH)
        standard.put_row("instance_type", abi.INSTANCE_TYPE)


def _ingress_pass(body: Body) -> None:
    _enter(body, whole=True)
    for block in ("parser", "verify_checksum", "ingress"):
        _call_block(body, block)
    standard = _Standard(body)
    body.store_row(abi.EGRESS_SPEC, standard.get("egress_spec"))
    body.store_row(abi.MCAST_GRP, standard.get("mcast_grp"))
    body.store_row(abi.PRIORITY, standard.get("priority"))
    body.store_row(abi.HEADER_BYTES, header_bytes(body))


def _parse_pass(body: Body) -> None:
    _enter(body, whole=False)
    _call_block(body, "parser")


def _egress_pass(body: Body) -> None:
    fn, standard = body.fn, _Standard(body)
    _clear_requests(body, abi.RECIRCULATE)
    drop = fn.op(f"load i64, ptr {body.address('%m', 8 * abi.DROP_PORT)}, align 8")
    drop = body.resized(drop, 64, 32)
    standard.put_row("egress_port", abi.EGRESS_PORT)
    standard.put("egress_spec", fn.op(f"add i32 {drop}, 1"), 32)
    standard.put_row("packet_length", abi.PACKET_LENGTH)
    standard.put_row("instance_type", abi.INSTANCE_TYPE)
    standard.put_row("egress_rid", abi.EGRESS_RID)
    standard.put_row("enq_timestamp", abi.ENQ_TIME_US)
    standard.put_row("enq_qdepth", abi.ENQ_QDEPTH, capped=True)
    standard.put_row("deq_timedelta", abi.DEQ_DELTA_US)
    standard.put_row("deq_qdepth", abi.DEQ_QDEPTH, capped=True)
    standard.put_now("egress_global_timestamp")
    _call_block(body, "egress")
    egress_spec = standard.get("egress_spec")
    body.store_row(abi.EGRESS_SPEC, egress_spec)
    body.store_row(abi.HEADER_BYTES, header_bytes(body))
    go_on = fn.label("send")
    fn.branch(fn.op(f"icmp eq i32 {egress_spec}, {drop}"), body.exits.on_return, go_on)
    fn.place(go_on)
    for block in ("compute_checksum", "deparser"):
        _call_block(body, block)


def _clear_metadata(body: Body) -> None:
    for slot in metadata_slots(body.program):
        if body.unit.layout.outlives_a_pass(slot):
            body.store(slot, "0")


def metadata_slots(program: ir.Program) -> tuple[int, ...]:
    """The slots that a copy does not inherit: metadata that is no header, and standard metadata."""
    first, count = program.metadata
    in_headers = {
        slot
        for header in program.headers
        for slot in range(header.valid, header.valid + header.size)
    }
    user = (slot for slot in range(first, first + count) if slot not in in_headers)
    return (*user, *program.standard_metadata.values())


def _preserve(unit: Unit) -> None:
    fn = Function(
        "define void @p4_preserve(ptr captures(none) align 8 %m, ptr noalias captures(none) "
        f"align {abi.ROW_ALIGN} %from, ptr noalias captures(none) align {abi.ROW_ALIGN} %r, "
        "i32 %list) nounwind"
    )
    end = fn.label("end")
    body = Body(unit, "", fn, Exits(end, end, end, end))
    lists = list(unit.preserve_lists)
    labels = [fn.label("list") for _ in lists]
    fn.switch("i32", "%list", end, list(enumerate(labels)))
    for slots, label in zip(lists, labels, strict=True):
        fn.place(label)
        for slot in slots:
            place = unit.layout.place("", slot)
            source = body.address("%from", place.offset)
            body.store(slot, body.load_natural(source, place.width))
        fn.jump(end)
    fn.place(end)
    fn.leave("void")
    unit.functions.append(fn.text())


_BATCH: Final = f"""define void @p4_forward_batch(ptr %m, ptr %rows, i64 %stride, i64 %count) nounwind {{
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %tail ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %run, label %done
run:
  %offset = mul i64 %i, %stride
  %r = getelementptr inbounds i8, ptr %rows, i64 %offset
  %port.at = getelementptr inbounds i32, ptr %r, i64 {abi.EGRESS_PORT}
  store i32 -1, ptr %port.at
  call void @p4_ingress_pass(ptr %m, ptr %r)
  %status.at = getelementptr inbounds i32, ptr %r, i64 {abi.STATUS}
  %resubmit.at = getelementptr inbounds i32, ptr %r, i64 {abi.RESUBMIT}
  %group.at = getelementptr inbounds i32, ptr %r, i64 {abi.MCAST_GRP}
  %spec.at = getelementptr inbounds i32, ptr %r, i64 {abi.EGRESS_SPEC}
  %status = load i32, ptr %status.at
  %resubmit = load i32, ptr %resubmit.at
  %group = load i32, ptr %group.at
  %spec = load i32, ptr %spec.at
  %drop.at = getelementptr inbounds i64, ptr %m, i64 {abi.DROP_PORT}
  %drop.wide = load i64, ptr %drop.at
  %drop = trunc i64 %drop.wide to i32
  %dropped = icmp eq i32 %spec, %drop
  %a = or i32 %status, %resubmit
  %b = or i32 %a, %group
  %special = icmp ne i32 %b, 0
  %stays = or i1 %special, %dropped
  br i1 %stays, label %tail, label %unicast
unicast:
  store i32 %spec, ptr %port.at
  %length.at = getelementptr inbounds i32, ptr %r, i64 {abi.LENGTH}
  %parsed.at = getelementptr inbounds i32, ptr %r, i64 {abi.PARSED_BYTES}
  %headers.at = getelementptr inbounds i32, ptr %r, i64 {abi.HEADER_BYTES}
  %packet.at = getelementptr inbounds i32, ptr %r, i64 {abi.PACKET_LENGTH}
  %length = load i32, ptr %length.at
  %parsed = load i32, ptr %parsed.at
  %headers = load i32, ptr %headers.at
  %payload = sub i32 %length, %parsed
  %packet = add i32 %payload, %headers
  store i32 %packet, ptr %packet.at
  call void @p4_egress_pass(ptr %m, ptr %r)
  br label %tail
tail:
  %next = add i64 %i, 1
  br label %head
done:
  ret void
}}
"""
