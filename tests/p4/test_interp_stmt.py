"""Control flow, data movement, headers, stacks and tables."""

from __future__ import annotations

import pytest
from interp_kit import FakeCounter, FakeMatch, FakeTable, Kit, const, load, put

from sglb.p4 import ir
from sglb.p4.ir import BinOp
from sglb.p4.runtime import Colour, ExternFailure


def add(slot: int, amount: int, width: int = 8) -> ir.Assign:
    total = ir.Binary(width, BinOp.ADD, load(slot, width), const(amount, width))
    return ir.Assign(target=ir.SlotRef(slot, width), value=total)


def equals(slot: int, value: int, width: int = 8) -> ir.Expr:
    return ir.Binary(1, BinOp.EQ, load(slot, width), const(value, width))


def less(slot: int, value: int, width: int = 8) -> ir.Expr:
    return ir.Binary(1, BinOp.LT, load(slot, width), const(value, width))


def test_if_and_switch() -> None:
    kit = Kit()
    a, b = kit.slot("a", 8), kit.slot("b", 8)
    choose = ir.If(
        cond=equals(a, 1),
        then=(put(b, 11),),
        other=(ir.If(cond=equals(a, 2), then=(), other=(put(b, 13),)),),
    )
    switch = ir.Switch(
        subject=load(a, 8), cases=(((1,), (add(b, 100),)), ((2, 3), (add(b, 50),))), default=()
    )
    kit.blocks["ingress"] = (choose, switch)
    engine = kit.engine()
    for value, expected in ((1, 111), (2, 50), (3, 63), (4, 13)):
        context = engine.new_context(b"", 0)
        context.frame[a] = value
        engine.ingress(context)
        assert context.frame[b] == expected


def test_very_long_chains() -> None:
    kit = Kit()
    a, b, c = kit.slot("a", 16), kit.slot("b", 16), kit.slot("c", 16)
    cases = tuple(((n,), (put(b, n + 1, 16),)) for n in range(3000))
    chain: tuple[ir.Stmt, ...] = (put(c, 9, 16),)
    for n in reversed(range(400)):
        chain = (ir.If(cond=equals(a, n, 16), then=(put(c, n + 2, 16),), other=chain),)
    kit.blocks["ingress"] = (
        ir.Switch(subject=load(a, 16), cases=cases, default=(put(b, 7, 16),)),
        *chain,
    )
    engine = kit.engine()
    for value, expected in ((0, (1, 2)), (399, (400, 401)), (2999, (3000, 9)), (3000, (7, 9))):
        context = engine.new_context(b"", 0)
        context.frame[a] = value
        engine.ingress(context)
        assert (context.frame[b], context.frame[c]) == expected


def test_loops_break_and_continue_run_the_update() -> None:
    # for (i = 0; i < 10; i += 1) { if (i == 2) continue; if (i == 5) break; sum += i }
    kit = Kit()
    i, total = kit.slot("i", 8), kit.slot("sum", 8)
    take = ir.Assign(
        target=ir.SlotRef(total, 8), value=ir.Binary(8, BinOp.ADD, load(total, 8), load(i, 8))
    )
    body = (
        ir.If(cond=equals(i, 2), then=(ir.Continue(),)),
        ir.If(cond=equals(i, 5), then=(ir.Break(),)),
        take,
    )
    loop = ir.Loop(cond_setup=(), cond=less(i, 10), body=body, update=(add(i, 1),))
    context = kit.run(loop)
    assert (context.frame[i], context.frame[total]) == (5, 0 + 1 + 3 + 4)


def test_an_endless_loop_fails_the_packet() -> None:
    kit = Kit()
    a = kit.slot("a", 8)
    with pytest.raises(ExternFailure, match="a loop ran 1048576 rounds"):
        kit.run(ir.Loop(cond_setup=(), cond=const(1, 1), body=(add(a, 1),)))


def test_return_ends_the_procedure_only_and_exit_the_block() -> None:
    kit = Kit()
    a, copied, after = kit.slot("a", 8), kit.slot("copied", 8), kit.slot("after", 8)
    returns = kit.proc(put(a, 1), ir.Return(), put(a, 2))
    exits = kit.proc(ir.If(cond=equals(a, 1), then=(ir.Exit(),)), put(a, 3))
    outer = kit.proc(ir.Call(proc=exits, copy_out=(put(copied, 7),)), put(after, 9))
    context = kit.run(ir.Call(proc=returns), ir.Call(proc=outer), put(after, 8))
    assert context.frame[a] == 1
    assert context.frame[copied] == 7  # copy-out happens on exit too
    assert context.frame[after] == 0


def test_exit_and_return_out_of_nested_loops_and_deep_blocks() -> None:
    kit = Kit()
    a, b = kit.slot("a", 8), kit.slot("b", 8)

    def deep(inner: ir.Stmt) -> ir.Stmt:
        for _ in range(120):
            inner = ir.If(cond=const(1, 1), then=(inner,))
        return inner

    one = const(1, 1)
    breaks = ir.Loop(cond_setup=(), cond=one, body=(add(a, 1), deep(ir.Break())))
    resumes = ir.Loop(
        cond_setup=(), cond=less(b, 3), body=(deep(ir.Continue()), put(a, 99)), update=(add(b, 1),)
    )
    leaves = kit.proc(ir.Loop(cond_setup=(), cond=one, body=(deep(ir.Return()),)), put(a, 98))
    stops = kit.proc(ir.Loop(cond_setup=(), cond=one, body=(deep(ir.Exit()),)), put(a, 97))
    context = kit.run(
        breaks, resumes, ir.Call(proc=leaves), add(b, 10), ir.Call(proc=stops), put(a, 96)
    )
    assert (context.frame[a], context.frame[b]) == (1, 13)


def test_copies() -> None:
    kit = Kit()
    slots = [kit.slot(f"s{i}", 8) for i in range(6)]
    first = slots[0]
    context = kit.run(
        *(put(s, i + 1) for i, s in enumerate(slots)),
        ir.Copy(target=first + 1, source=first, count=3),  # overlapping: as if copied aside
        ir.Zero(target=first + 5, count=1),
    )
    assert [context.frame[s] for s in slots] == [1, 1, 2, 3, 5, 0]


def test_elements_in_and_out_of_range() -> None:
    kit = Kit()
    stack = kit.stack("s", 2, ("a", 8), ("b", 8))
    index, here = kit.slot("index", 8), kit.slot("here", 1)
    kit.slot("a", 8), kit.slot("b", 8)
    size = 3
    read = ir.CopyElement(
        array=stack, index=load(index, 8), offset=0, slot=here, count=size, load=True
    )
    write = ir.CopyElement(
        array=stack, index=load(index, 8), offset=0, slot=here, count=size, load=False
    )
    field = ir.Assign(target=ir.ElementRef(stack, 2, load(index, 8), 8), value=const(77, 8))
    base = kit.arrays[0].base
    kit.blocks["ingress"] = (write,)
    kit.blocks["egress"] = (read,)
    kit.blocks["compute_checksum"] = (field,)
    engine = kit.engine()

    context = engine.new_context(b"", 0)
    context.frame[here : here + 3] = [1, 5, 6]
    context.frame[index] = 1
    engine.ingress(context)
    assert context.frame[base : base + 6] == [0, 0, 0, 1, 5, 6]
    engine.deparse(context)
    assert context.frame[base : base + 6] == [0, 0, 0, 1, 5, 77]
    context.frame[here : here + 3] = [9, 9, 9]
    engine.egress(context)
    assert context.frame[here : here + 3] == [1, 5, 77]
    context.frame[index] = 2
    before = list(context.frame)
    engine.ingress(context)
    engine.deparse(context)
    assert context.frame == before
    engine.egress(context)
    assert context.frame[here : here + 3] == [0, 0, 0]


def test_validity() -> None:
    kit = Kit()
    header = kit.header("h", ("a", 8), ("b", 16))
    a = header.fields[0].slot
    on, off = ir.SetValid(header=ir.HeaderAt(0)), ir.SetInvalid(header=ir.HeaderAt(0))
    context = kit.run(put(a, 5), on, put(a, 6), on)
    assert context.frame[header.valid : header.valid + 3] == [1, 6, 0]  # the second changes nothing
    context = kit.run(on, put(a, 6), off)
    assert context.frame[header.valid : header.valid + 3] == [0, 6, 0]
    context = kit.run(on, put(a, 6), off, on)
    assert context.frame[header.valid : header.valid + 3] == [1, 0, 0]


def test_validity_of_stack_elements() -> None:
    kit = Kit()
    stack = kit.stack("s", 2, ("a", 8))
    index = kit.slot("index", 8)
    on = ir.SetValid(header=ir.HeaderIn(stack, load(index, 8)))
    off = ir.SetInvalid(header=ir.HeaderIn(stack, load(index, 8)))
    base = kit.arrays[0].base
    context = kit.run(on, put(index, 1), on, put(index, 2), on, put(index, 0), off)
    assert context.frame[base : base + 4] == [0, 0, 1, 0]


@pytest.mark.parametrize(
    ("count", "elements", "following"),
    [
        (1, [0, 0, 1, 11, 1, 22], 3),
        (2, [0, 0, 0, 0, 1, 11], 3),
        (5, [0, 0, 0, 0, 0, 0], 3),
        (-1, [1, 22, 1, 33, 0, 0], 1),
        (-3, [0, 0, 0, 0, 0, 0], 0),
        (0, [1, 11, 1, 22, 1, 33], 2),
    ],
)
def test_push_and_pop(count: int, elements: list[int], following: int) -> None:
    kit = Kit()
    stack = kit.stack("s", 3, ("a", 8))
    kit.blocks["ingress"] = (ir.Push(array=stack, count=count),)
    engine = kit.engine()
    context = engine.new_context(b"", 0)
    array = kit.arrays[0]
    context.frame[array.base : array.base + 6] = [1, 11, 1, 22, 1, 33]
    context.frame[array.next] = 2
    engine.ingress(context)
    assert context.frame[array.base : array.base + 6] == elements
    assert context.frame[array.next] == following


def action(name: str, proc: int, **more: object) -> ir.TableAction:
    return ir.TableAction(name, proc, **more)


def test_apply() -> None:
    kit = Kit()
    a, b, hit, run = (kit.slot(n, w) for n, w in (("a", 9), ("b", 16), ("hit", 1), ("run", 8)))
    p, q, bound = kit.slot("p", 8), kit.slot("q", 16), kit.slot("bound", 8)
    result = kit.slot("result", 16)
    nothing = kit.proc(kind="action")
    total = ir.Binary(16, BinOp.ADD, load(q, 16), ir.Extend(16, load(bound, 8), signed=False))
    sets = kit.proc(ir.Assign(target=ir.SlotRef(result, 16), value=total), kind="action")
    state = FakeTable({(300, 7): FakeMatch(True, 1, (4, 1000))})
    table = kit.table(
        ir.Table(
            name="t",
            keys=(
                ir.Key("a", load(a, 9), 9, "exact"),
                ir.Key("b", ir.Slice(8, load(b, 16), 7, 0), 8, "exact"),
            ),
            actions=(
                action("NoAction", nothing),
                action(
                    "sets",
                    sets,
                    params=((p, 8), (q, 16)),
                    setup=(put(bound, 3),),
                    copy_out=(add(bound, 1),),
                ),
            ),
            default_action=0,
            default_args=(),
            const_default=False,
            size=4,
            direct_counter=0,
        ),
        state,
    )
    kit.instance(ir.InstanceKind.DIRECT_COUNTER, None)
    kit.blocks["ingress"] = (ir.Apply(table=table, hit=hit, action_run=run),)
    engine = kit.engine()
    context = engine.new_context(bytes(60), 12345)
    context.frame[a], context.frame[b] = 300, 0x0107
    engine.ingress(context)
    frame = context.frame
    assert (frame[hit], frame[run], frame[p], frame[q]) == (1, 1, 4, 1000)
    assert (frame[result], frame[bound]) == (1003, 4)
    miss = engine.new_context(bytes(61), 5)
    engine.ingress(miss)
    assert (miss.frame[hit], miss.frame[run], miss.frame[result]) == (0, 0, 0)
    assert state.asked == [((300, 7), b"", 12345), ((0, 0), b"", 5)]
    assert state.counted == [(True, 60), (False, 61)]


def test_an_exit_in_an_action_still_copies_out() -> None:
    kit = Kit()
    done, after = kit.slot("done", 8), kit.slot("after", 8)
    leaves = kit.proc(ir.Exit(), kind="action")
    entry = action("leaves", leaves, copy_out=(put(done, 1),))
    table = kit.table(ir.Table("t", (), (entry,), 0, (), False, 1), FakeTable())
    context = kit.run(ir.Apply(table=table), put(after, 1))
    assert (context.frame[done], context.frame[after]) == (1, 0)


def test_selector_bytes_leave_out_fields_of_invalid_headers() -> None:
    kit = Kit()
    header = kit.header("h", ("x", 4), ("y", 9))
    state = FakeTable()
    x, y = header.fields
    selector = (
        ir.DataField(load(x.slot, 4), 4, valid=header.valid),
        ir.DataField(const(0x1FF, 9), 9),
        ir.DataField(load(y.slot, 9), 9, valid=header.valid),
    )
    nothing = kit.proc(kind="action")
    table = kit.table(
        ir.Table("t", (), (action("n", nothing),), 0, (), False, 1, selector=selector), state
    )
    kit.run(
        ir.Apply(table=table),
        ir.SetValid(header=ir.HeaderAt(0)),
        put(x.slot, 0xA, 4),
        put(y.slot, 1, 9),
        ir.Apply(table=table),
    )
    # nine ones and seven zeros; then 1010 111111111 000000001 and two zeros
    assert [s for _, s, _ in state.asked] == [bytes.fromhex("ff80"), bytes.fromhex("aff804")]


def test_direct_meter_writes_on_a_hit_before_the_action() -> None:
    kit = Kit()
    colour, seen = kit.slot("colour", 2), kit.slot("seen", 2)
    looks = kit.proc(ir.Assign(target=ir.SlotRef(seen, 2), value=load(colour, 2)), kind="action")
    state = FakeTable({(1,): FakeMatch(True)}, colour=Colour.RED)
    key = kit.slot("key", 8)
    kit.table(
        ir.Table(
            "t",
            (ir.Key("key", load(key, 8), 8, "exact"),),
            (action("looks", looks),),
            0,
            (),
            False,
            1,
            direct_meter=0,
            meter_result=ir.SlotRef(colour, 2),
        ),
        state,
    )
    kit.instance(ir.InstanceKind.DIRECT_METER, None)
    assert kit.run(ir.Apply(table=0)).frame[seen] == 0
    assert kit.run(put(key, 1), ir.Apply(table=0)).frame[seen] == 2


def test_trace_tells_what_happened() -> None:
    kit = Kit()
    a = kit.slot("meta.a", 8)
    p = kit.slot("p", 8)
    sets = kit.proc(ir.Assign(target=ir.SlotRef(a, 8), value=load(p, 8)), kind="action")
    entry = action("sets", sets, params=((p, 8),))
    state = FakeTable({(0,): FakeMatch(True, 0, (6,))})
    table = kit.table(
        ir.Table("I.t", (ir.Key("k", load(a, 8), 8, "exact"),), (entry,), 0, (), False, 1), state
    )
    counter = kit.instance(ir.InstanceKind.COUNTER, FakeCounter())
    context = kit.run(
        ir.Apply(table=table),
        ir.Extern(op="counter.count", instance=counter, ins=(const(3, 32),)),
        traced=True,
    )
    assert context.trace.events == [
        ("enter", "ingress"),
        ("table", "I.t", {"k": 0}, True, "sets", (6,)),
        ("assign", "meta.a", 6),
        ("extern", "counter.count", "inst0", (3,), ()),
    ]


def test_traced_and_plain_runs_agree() -> None:
    kit = Kit()
    a, b = kit.slot("a", 8), kit.slot("b", 8)
    stmts = (
        put(a, 3),
        ir.Loop(cond_setup=(), cond=less(b, 5), body=(add(b, 2),), update=(add(a, 1),)),
        ir.Copy(target=b, source=a, count=1),
    )
    assert kit.run(*stmts).frame == kit.run(*stmts, traced=True).frame
