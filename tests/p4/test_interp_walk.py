"""Random programs in IR: the interpreter, plain and traced, against the tree walk of reference_walk."""

from __future__ import annotations

import random

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from interp_kit import FakeMatch, FakeTable, Kit, Recorder, const, load
from reference_walk import Walk

from sglb.p4 import ir

WIDTHS = (1, 1, 3, 8, 8, 8, 9, 16, 32, 32, 48, 64, 128)
SAME_WIDTH = (
    ir.BinOp.ADD,
    ir.BinOp.SUB,
    ir.BinOp.MUL,
    ir.BinOp.AND,
    ir.BinOp.OR,
    ir.BinOp.XOR,
    ir.BinOp.ADD_SAT,
    ir.BinOp.SUB_SAT,
    ir.BinOp.ADD_SAT_S,
    ir.BinOp.SUB_SAT_S,
)
SHIFTS = (ir.BinOp.SHL, ir.BinOp.SHR, ir.BinOp.SAR)
COMPARISONS = (
    ir.BinOp.EQ,
    ir.BinOp.NE,
    ir.BinOp.LT,
    ir.BinOp.LE,
    ir.BinOp.LT_S,
    ir.BinOp.LE_S,
)


class Maker:
    """Makes one random program; everything it decides comes from `rng`."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.kit = Kit()
        self.scalars = [(self.kit.slot(f"v{i}", w), w) for i, w in enumerate(WIDTHS)]
        self.header = self.kit.header("h", ("a", 8), ("b", 16), ("c", 8))
        self.stack = self.kit.stack("s", 3, ("a", 8), ("b", 16))
        self.scalars += [(f.slot, f.width) for h in self.kit.headers for f in h.fields]
        self.loops = 0
        self.callees: list[int] = []
        for _ in range(rng.randint(0, 4)):
            body = self.stmts(2, in_loop=False)
            kind = rng.choice(["action", "function", "control"])
            self.callees.append(self.kit.proc(*body, kind=kind))
        for _ in range(rng.randint(0, 2) if self.callees else 0):
            self._table()
        self.kit.blocks["ingress"] = self.stmts(3, in_loop=False, length=8)

    # --- expressions ------------------------------------------------------------------------------

    def number(self, width: int) -> ir.Const:
        top = (1 << width) - 1
        edges = [0, 1, top, top >> 1, (top >> 1) + 1, self.rng.getrandbits(width)]
        return const(self.rng.choice(edges) & top, width)

    def leaf(self, width: int) -> ir.Expr:
        slots = [slot for slot, w in self.scalars if w == width]
        if slots and self.rng.random() < 0.7:
            return load(self.rng.choice(slots), width)
        if width in (8, 16) and self.rng.random() < 0.5:
            return ir.LoadElement(width, self.stack, 1 if width == 8 else 2, self.index())
        return self.number(width)

    def index(self) -> ir.Expr:
        """An index, often within the stack's three elements."""
        width = self.rng.choice([1, 3, 8, 32])
        low = min(3, width - 1)
        choices = [
            lambda: const(self.rng.randint(0, min(4, (1 << width) - 1)), width),
            lambda: self.leaf(width),
            lambda: ir.Binary(width, ir.BinOp.AND, self.leaf(width), const(low, width)),
        ]
        return self.rng.choice(choices)()

    def expr(self, width: int, depth: int) -> ir.Expr:
        rng = self.rng
        if depth <= 0:
            return self.leaf(width)
        below = depth - 1
        kinds = ["leaf", "same", "shift", "unary", "slice", "mux"]
        kinds += ["concat", "extend"] * (width > 1) + ["compare", "logic", "not"] * (width == 1) * 2
        match rng.choice(kinds):
            case "same":
                op = rng.choice(SAME_WIDTH)
                return ir.Binary(width, op, self.expr(width, below), self.expr(width, below))
            case "shift":
                amount = self.expr(rng.choice([3, 8, 16, 64]), below)
                return ir.Binary(width, rng.choice(SHIFTS), self.expr(width, below), amount)
            case "unary":
                op = rng.choice([ir.UnOp.INV, ir.UnOp.NEG])
                return ir.Unary(width, op, self.expr(width, below))
            case "slice":
                wide = width + rng.choice([0, 1, 5, 8])
                low = rng.randint(0, wide - width)
                return ir.Slice(width, self.expr(wide, below), low + width - 1, low)
            case "mux":
                then, other = self.expr(width, below), self.expr(width, below)
                return ir.Mux(width, self.expr(1, below), then, other)
            case "concat":
                left = rng.randint(1, width - 1)
                parts = self.expr(left, below), self.expr(width - left, below)
                return ir.Binary(width, ir.BinOp.CONCAT, *parts)
            case "extend":
                narrow = rng.randint(1, width)
                return ir.Extend(width, self.expr(narrow, below), rng.random() < 0.5)
            case "compare":
                wide = rng.choice([1, 3, 8, 16, 48])
                parts = self.expr(wide, below), self.expr(wide, below)
                return ir.Binary(1, rng.choice(COMPARISONS), *parts)
            case "logic":
                op = rng.choice([ir.BinOp.LAND, ir.BinOp.LOR])
                return ir.Binary(1, op, self.expr(1, below), self.expr(1, below))
            case "not":
                return ir.Unary(1, ir.UnOp.NOT, self.expr(1, below))
        return self.leaf(width)

    def deep(self, width: int) -> ir.Expr:
        """Deeper than Python lets brackets nest."""
        expr = self.leaf(width)
        for _ in range(self.rng.choice([49, 50, 51, 120])):
            op = self.rng.choice(SAME_WIDTH)
            expr = ir.Binary(width, op, expr, self.leaf(width))
        return expr

    # --- statements -------------------------------------------------------------------------------

    def stmts(self, depth: int, *, in_loop: bool, length: int = 4) -> tuple[ir.Stmt, ...]:
        made: list[ir.Stmt] = []
        for _ in range(self.rng.randint(0, length)):
            made += self.stmt(depth, in_loop)
        return tuple(made)

    def stmt(self, depth: int, in_loop: bool) -> list[ir.Stmt]:
        rng = self.rng
        simple = ["assign"] * 4 + ["element", "copy", "copy_element", "zero", "zeros", "deep"]
        simple += ["valid", "invalid", "push", "leave"]
        kinds = simple + (["if", "if", "chain", "switch", "loop", "nest"] if depth else [])
        kinds += ["call"] * 2 * bool(self.callees) + ["apply"] * 2 * bool(self.kit.tables)
        return getattr(self, f"_{rng.choice(kinds)}")(depth - 1, in_loop)

    def target(self) -> tuple[ir.LValue, int]:
        slot, width = self.rng.choice(self.scalars)
        return ir.SlotRef(slot, width), width

    def _assign(self, _depth: int, _in_loop: bool) -> list[ir.Stmt]:
        target, width = self.target()
        return [ir.Assign(target=target, value=self.expr(width, self.rng.randint(0, 4)))]

    def _deep(self, _depth: int, _in_loop: bool) -> list[ir.Stmt]:
        target, width = self.target()
        return [ir.Assign(target=target, value=self.deep(width))]

    def _element(self, _depth: int, _in_loop: bool) -> list[ir.Stmt]:
        width = self.rng.choice([8, 16])
        target = ir.ElementRef(self.stack, 1 if width == 8 else 2, self.index(), width)
        return [ir.Assign(target=target, value=self.expr(width, 2))]

    def _copy(self, _depth: int, _in_loop: bool) -> list[ir.Stmt]:
        array = self.kit.arrays[self.stack]
        starts = [array.base + i * array.stride for i in range(array.size)]
        source, target = self.rng.choice(starts), self.rng.choice(starts)
        return [ir.Copy(target=target, source=source, count=array.stride)]

    def _copy_element(self, _depth: int, _in_loop: bool) -> list[ir.Stmt]:
        array = self.kit.arrays[self.stack]
        slot = array.base + self.rng.randrange(array.size) * array.stride
        load_it = self.rng.random() < 0.5
        index = self.index()
        return [
            ir.CopyElement(
                array=self.stack, index=index, offset=0, slot=slot, count=array.stride, load=load_it
            )
        ]

    def _zero(self, _depth: int, _in_loop: bool) -> list[ir.Stmt]:
        count = self.rng.choice([1, self.header.size])
        return [ir.Zero(target=self.header.valid, count=count)]

    def _zeros(self, _depth: int, _in_loop: bool) -> list[ir.Stmt]:
        """Neighbours zeroed one by one, perhaps with a gap."""
        first, count = self.rng.randrange(6), self.rng.randint(2, 7)
        some = self.scalars[first : first + count]
        if self.rng.random() < 0.3:
            del some[self.rng.randrange(len(some))]
        return [ir.Assign(target=ir.SlotRef(s, w), value=const(0, w)) for s, w in some]

    def ref(self) -> ir.HeaderRef:
        if self.rng.random() < 0.5:
            return ir.HeaderAt(self.rng.randrange(len(self.kit.headers)))
        return ir.HeaderIn(self.stack, self.index())

    def _valid(self, _depth: int, _in_loop: bool) -> list[ir.Stmt]:
        return [ir.SetValid(header=self.ref())]

    def _invalid(self, _depth: int, _in_loop: bool) -> list[ir.Stmt]:
        return [ir.SetInvalid(header=self.ref())]

    def _push(self, _depth: int, _in_loop: bool) -> list[ir.Stmt]:
        return [ir.Push(array=self.stack, count=self.rng.choice([-4, -2, -1, 0, 1, 2, 4]))]

    def _leave(self, depth: int, in_loop: bool) -> list[ir.Stmt]:
        kinds: list[type[ir.Stmt]] = [ir.Return, ir.Exit]
        if in_loop:
            kinds += [ir.Break, ir.Continue] * 2
        leave = self.rng.choice(kinds)()
        return [ir.If(cond=self.expr(1, 2), then=(leave,))]

    def _if(self, depth: int, in_loop: bool) -> list[ir.Stmt]:
        then = self.stmts(depth, in_loop=in_loop)
        other = self.stmts(depth, in_loop=in_loop) if self.rng.random() < 0.6 else ()
        return [ir.If(cond=self.expr(1, 3), then=then, other=other)]

    def _chain(self, depth: int, in_loop: bool) -> list[ir.Stmt]:
        """An `else if` chain, now and then with a deep condition."""
        other = self.stmts(depth, in_loop=in_loop, length=2)
        for _ in range(self.rng.randint(1, 4)):
            deep = self.rng.random() < 0.2
            cond = ir.Binary(1, ir.BinOp.NE, self.deep(8), const(0, 8)) if deep else self.expr(1, 2)
            then = self.stmts(depth, in_loop=in_loop, length=2)
            other = (ir.If(cond=cond, then=then, other=other),)
        return list(other)

    def _nest(self, depth: int, in_loop: bool) -> list[ir.Stmt]:
        """Deeper than Python lets blocks nest."""
        inner = self.stmts(depth, in_loop=in_loop)
        for _ in range(self.rng.choice([2, 31, 70])):
            inner = (ir.If(cond=const(1, 1), then=inner),)
        return list(inner)

    def _switch(self, depth: int, in_loop: bool) -> list[ir.Stmt]:
        cases = []
        values = list(range(8))
        self.rng.shuffle(values)
        for _ in range(self.rng.randint(0, 3)):
            some = tuple(values.pop() for _ in range(self.rng.randint(1, 2)))
            cases.append((some, self.stmts(depth, in_loop=in_loop, length=2)))
        default = self.stmts(depth, in_loop=in_loop, length=2)
        return [ir.Switch(subject=self.expr(3, 2), cases=tuple(cases), default=default)]

    def _loop(self, depth: int, in_loop: bool) -> list[ir.Stmt]:
        """At most three rounds, by a counter of its own that only `update` changes."""
        self.loops += 1
        slot = self.kit.slot(f"loop{self.loops}", 8)
        at = load(slot, 8)
        more = ir.Binary(1, ir.BinOp.LT, at, const(self.rng.randint(0, 3), 8))
        count = ir.Assign(
            target=ir.SlotRef(slot, 8), value=ir.Binary(8, ir.BinOp.ADD, at, const(1, 8))
        )
        setup = tuple(self._assign(0, False)) if self.rng.random() < 0.3 else ()
        return [
            ir.Assign(target=ir.SlotRef(slot, 8), value=const(0, 8)),
            ir.Loop(
                cond_setup=setup,
                cond=ir.Binary(1, ir.BinOp.LAND, more, self.expr(1, 1)),
                body=self.stmts(depth, in_loop=True),
                update=(*self._assign(0, False), count),
            ),
        ]

    def _call(self, _depth: int, _in_loop: bool) -> list[ir.Stmt]:
        copy_out = self._assign(0, False) if self.rng.random() < 0.6 else []
        return [ir.Call(proc=self.rng.choice(self.callees), copy_out=tuple(copy_out))]

    # --- tables -----------------------------------------------------------------------------------

    def _table(self) -> None:
        rng = self.rng
        actions = []
        for i in range(rng.randint(1, 3)):
            params = tuple(rng.sample(self.scalars, rng.randint(0, 2)))
            setup, copy_out = (tuple(self._assign(0, False)) for _ in range(2))
            actions.append(
                ir.TableAction(f"a{i}", rng.choice(self.callees), params, setup, copy_out)
            )

        def outcome(hit: bool) -> FakeMatch:
            at = rng.randrange(len(actions))
            return FakeMatch(hit, at, tuple(rng.getrandbits(w) for _, w in actions[at].params))

        key = ir.Key("k", self.expr(3, 2), 3, "exact")
        entries = {(v,): outcome(True) for v in rng.sample(range(8), 4)}
        table = ir.Table("t", (key,), tuple(actions), 0, (), False, 16)
        self.kit.table(table, FakeTable(entries, outcome(False)))

    def _apply(self, _depth: int, _in_loop: bool) -> list[ir.Stmt]:
        index = self.rng.randrange(len(self.kit.tables))
        hit = self.kit.slot("hit", 1) if self.rng.random() < 0.5 else None
        ran = self.kit.slot("ran", 8) if self.rng.random() < 0.5 else None
        return [ir.Apply(table=index, hit=hit, action_run=ran)]


@settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.integers(0, 2**32))
@example(0)
def test_random_programs_mean_what_the_walk_says(seed: int) -> None:
    rng = random.Random(seed)
    maker = Maker(rng)
    program = maker.kit.program()
    start = {slot: maker.number(width).value for slot, width in maker.scalars}
    walk = Walk(program, maker.kit.table_states)
    walk.state.update(start)
    expected = walk.block(program.ingress)
    engine = maker.kit.engine()
    for trace in (None, Recorder()):
        context = engine.new_context(b"", 0)
        for slot, value in start.items():
            context.frame[slot] = value
        context.trace = trace
        engine.ingress(context)
        named = [(s.name, v) for s, v in zip(program.slots, context.frame, strict=True)]
        assert named == [(s.name, v) for s, v in zip(program.slots, expected, strict=True)]
