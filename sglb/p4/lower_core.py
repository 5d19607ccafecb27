"""What the lowering pass knows while it walks a program: the frame, the instances, the code so far.

The rules for each construct live in the `lower_*` modules; they register here by node kind, so
that `Body.expr`, `Body.stmt` and friends reach them without the modules importing each other in a
circle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

from sglb.p4 import ast, ir
from sglb.p4.checked import CallInfo, CallKind, Checked, Const
from sglb.p4.control_plane import CpDigest
from sglb.p4.ir_build import binary, const, mask_of, resize, slice_, unary
from sglb.p4.layout import (
    ElementPlace,
    Frame,
    Place,
    SlicePlace,
    SlotPlace,
    Storage,
    is_header,
    is_scalar,
    is_union,
    members,
    scalar_width,
    size_of,
    strip,
)
from sglb.p4.lower_const import fold_int
from sglb.p4.lower_env import (
    ActionInst,
    Binding,
    BlockInst,
    Env,
    ExternInst,
    Known,
    Value,
    problem,
    scalar_const,
)
from sglb.p4.source import BUILTIN, Span
from sglb.p4.types import (
    BitsT,
    ExternT,
    IntT,
    ListT,
    SetT,
    StackT,
    StructT,
    TupleT,
    Type,
    TypeVarT,
)

# --- registries -----------------------------------------------------------------------------------

E = TypeVar("E")
ExprRule = Callable[["Body", E], ir.Expr]
StmtRule = Callable[["Body", E], None]
CallRule = Callable[["Body", ast.Call, CallInfo], Value]

EXPRS: Final[dict[type[ast.Expr], ExprRule[ast.Expr]]] = {}
PLACES: Final[dict[type[ast.Expr], Callable[[Body, ast.Expr, bool], Place]]] = {}
#: Expressions that build a value piece by piece into storage given to them.
BUILDERS: Final[dict[type[ast.Expr], Callable[[Body, ast.Expr, SlotPlace], None]]] = {}
#: Expressions other than l-values that yield storage.
STORAGES: Final[dict[type[ast.Expr], Callable[[Body, ast.Expr], Storage]]] = {}
STMTS: Final[dict[type[ast.Stmt], StmtRule[ast.Stmt]]] = {}
CALLS: Final[dict[CallKind, CallRule]] = {}
METHODS: Final[dict[tuple[str, str], CallRule]] = {}
FUNCTIONS: Final[dict[str, CallRule]] = {}


class Lowering:
    """The state of one lowering: everything that is not particular to one procedure."""

    def __init__(self, checked: Checked) -> None:
        self.checked = checked
        self.frame = Frame(errors=checked.errors)
        self.root = Env(None, "")
        self.procs: list[ir.Proc | None] = []
        self.tables: list[ir.Table | None] = []
        self.instances: list[ir.Instance] = []
        self.value_sets: list[ir.ValueSet] = []
        self.functions: dict[tuple[object, ...], tuple[int, tuple[Binding, ...], SlotPlace]] = {}
        #: Extern instances by index into `instances`.
        self.externs: dict[int, ExternInst] = {}
        #: The shared standard_metadata.
        self.standard_metadata = SlotPlace(0, IntT())
        self.errors = {name: i for i, name in enumerate(checked.errors)}
        self.packet = ExternInst("packet", None, "packet", ExternT("packet"))
        #: Digests by index into `instances`.
        self.digests: dict[int, CpDigest] = {}
        #: Whether an extern instance is declared, or an extern function called outside the parser.
        self.has_externs = False

    def new_proc(self) -> int:
        """The number of a procedure that is about to be lowered."""
        self.procs.append(None)
        return len(self.procs) - 1

    def substitute(self, type_: Type, env: Env) -> Type:
        """The type with type parameters replaced by what they stand for in `env`."""
        if isinstance(type_, TypeVarT):
            found = env.type_arg(type_.name)
            return type_ if found is None else found
        if isinstance(type_, StackT):
            return StackT(self.substitute(type_.element, env), type_.size)
        if isinstance(type_, TupleT):
            return TupleT(tuple(self.substitute(t, env) for t in type_.items))
        if isinstance(type_, ListT):
            return ListT(self.substitute(type_.item, env))
        if isinstance(type_, SetT):
            return SetT(self.substitute(type_.element, env))
        if isinstance(type_, StructT) and type_.args:
            return self._substitute_struct(type_, env)
        if isinstance(type_, ExternT) and type_.args:
            args = tuple(self.substitute(t, env) for t in type_.args)
            return ExternT(type_.name, args, type_.decl)
        return type_

    def _substitute_struct(self, type_: StructT, env: Env) -> StructT:
        args = tuple(self.substitute(t, env) for t in type_.args)
        if args == type_.args:
            return type_
        fields = tuple(
            type(f)(f.name, self.substitute(f.type, env), f.annotations) for f in type_.fields
        )
        return StructT(type_.name, type_.kind, fields, args, type_.decl)


class Body:
    """Lowers the statements and expressions of one procedure into `out`."""

    def __init__(self, lowering: Lowering, env: Env, kind: str, name: str) -> None:
        self.lowering = lowering
        self.frame = lowering.frame
        self.checked = lowering.checked
        self.env = env
        self.kind = kind
        self.name = name
        self.out: list[ir.Stmt] = []
        self.result: SlotPlace | None = None
        self.span = BUILTIN
        #: The control or parser, or the action, whose body this is.
        self.block_inst: BlockInst | None = None
        self.action_inst: ActionInst | None = None

    # --- what the checker found ---

    def own_type(self, expr: ast.Expr) -> Type:
        """An expression's own type, before implicit conversion."""
        found = self.checked.types.get(id(expr))
        if found is None:
            raise problem(
                "the type of this expression is not known (a fault of the compiler)", expr.span
            )
        return self.lowering.substitute(found, self.env)

    def type_of(self, expr: ast.Expr) -> Type:
        """The type in which an expression's value is used."""
        found = self.checked.coercions.get(id(expr))
        if found is None:
            return self.own_type(expr)
        return self.lowering.substitute(found, self.env)

    def typeref(self, ref: ast.TypeRef) -> Type:
        """The type that a type expression denotes here."""
        found = self.checked.typerefs.get(id(ref))
        if found is None:
            raise problem("this type is not known (a fault of the compiler)", ref.span)
        return self.lowering.substitute(found, self.env)

    def call_info(self, node: ast.Node) -> CallInfo:
        """How a call resolved."""
        found = self.checked.calls.get(id(node))
        if found is None:
            raise problem("this call is not resolved (a fault of the compiler)", node.span)
        return found

    def binding(self, node: ast.Node) -> Binding:
        """What a name, or an action reference, stands for."""
        decl = self.checked.refs.get(id(node))
        found = None if decl is None else self.env.lookup(decl)
        if found is None:
            name = getattr(node, "name", "this")
            raise problem(f"{name} has no storage or value here", node.span)
        return found

    # --- code ---

    def emit(self, *stmts: ir.Stmt) -> None:
        """Append statements."""
        self.out.extend(stmts)

    @contextmanager
    def captured(self) -> Iterator[list[ir.Stmt]]:
        """Statements emitted inside go to a list of their own."""
        saved, self.out = self.out, []
        try:
            yield self.out
        finally:
            self.out = saved

    def stmt(self, stmt: ast.Stmt) -> None:
        """Lower a statement."""
        rule = STMTS.get(type(stmt))
        if rule is None:
            raise problem(f"{type(stmt).__name__} statements are not supported here", stmt.span)
        saved, self.span = self.span, stmt.span
        rule(self, stmt)
        self.span = saved

    def block(self, stmts: Sequence[ast.Stmt]) -> tuple[ir.Stmt, ...]:
        """Lower statements into a list of their own; what follows a return or exit is left out."""
        with self.captured() as out:
            self.stmts(stmts)
        return tuple(out)

    def stmts(self, stmts: Sequence[ast.Stmt]) -> None:
        """Lower statements in order.

        What stands behind one that never falls through leaves no code; but it counts as a use of
        the tables and actions it names, as it does for p4c.
        """
        for i, stmt in enumerate(stmts):
            self.stmt(stmt)
            if self.out and isinstance(self.out[-1], ir.Return | ir.Exit | ir.Break | ir.Continue):
                with self.captured():
                    self.stmts(stmts[i + 1 :])
                return

    # --- values ---

    def known(self, expr: ast.Expr) -> Const | None:
        """An expression's compile-time value: the checker's, or what a name is bound to."""
        value = self._named_value(expr)
        foldable = isinstance(expr, ast.Unary | ast.Binary | ast.Cast)
        if value is None and foldable and isinstance(self.checked.types.get(id(expr)), IntT):
            value = fold_int(self._named_value, expr)
        return value

    def _named_value(self, expr: ast.Expr) -> Const | None:
        value = self.checked.consts.get(id(expr))
        if value is None and isinstance(expr, ast.Name):
            decl = self.checked.refs.get(id(expr))
            bound = None if decl is None else self.env.lookup(decl)
            if isinstance(bound, Known):
                return bound.value
        return value

    def expr(self, expr: ast.Expr) -> ir.Expr:
        """A scalar's value, in the type it is used in."""
        type_ = self.type_of(expr)
        value = self.known(expr)
        if value is not None:
            return scalar_const(value, type_, expr.span)
        rule = EXPRS.get(type(expr))
        if rule is None:
            raise problem(f"{type(expr).__name__} expressions are not supported here", expr.span)
        return rule(self, expr)

    def constant(self, expr: ast.Expr, what: str) -> int:
        """A scalar that must be known at compile time, as an unsigned pattern (or any int)."""
        value = self.known(expr)
        if isinstance(value, bool | int):
            return int(value)
        if not isinstance(self.type_of(expr), IntT):
            with self.captured():
                lowered = self.expr(expr)
            if isinstance(lowered, ir.Const):
                return lowered.value
        raise problem(f"{what} must be known at compile time", expr.span)

    def place(self, expr: ast.Expr, *, fix: bool) -> Place:
        """Where an expression's value lies; one that is no l-value is put into a temporary.

        With `fix`, a run-time index is settled now, for a write later.
        """
        rule = PLACES.get(type(expr))
        if rule is None or self.known(expr) is not None:
            return self.storage(expr)
        return rule(self, expr, fix)

    def storage(self, expr: ast.Expr) -> Storage:
        """Where an expression's value lies (not a copy: it may change later)."""
        type_ = self.type_of(expr)
        if not is_scalar(type_) and self.known(expr) is None and type(expr) not in BUILDERS:
            own = STORAGES.get(type(expr))
            place = own(self, expr) if own is not None else self._readable(expr)
            if strip(place.type) == strip(type_):
                return place.with_type(type_)
            if isinstance(place, SlotPlace):
                temp = self.temp(type_)
                self.convert(temp, place)
                return temp
        temp = self.temp(type_)
        self.into(expr, temp)
        return temp

    def _readable(self, expr: ast.Expr) -> Storage:
        rule = PLACES.get(type(expr))
        if rule is None:
            raise problem(f"{type(expr).__name__} expressions are not supported here", expr.span)
        place = rule(self, expr, False)
        if isinstance(place, SlicePlace):
            raise problem("a slice is no structure", expr.span)
        return place

    def into(self, expr: ast.Expr, target: SlotPlace) -> None:
        """Evaluate into storage that the expression does not read."""
        value = self.known(expr)
        if is_scalar(target.type):
            self.store(target, self.expr(expr))
        elif value is not None:
            self.const_into(value, target, expr.span)
        elif type(expr) in BUILDERS:
            BUILDERS[type(expr)](self, expr, target)
        else:
            self.copy(target, self.storage(expr))

    def const_into(self, value: Const, target: SlotPlace, span: Span) -> None:
        """Write a compile-time value."""
        if is_scalar(target.type):
            self.store(target, scalar_const(value, target.type, span))
            return
        if not isinstance(value, tuple):
            raise problem(f"a constant of type {target.type} cannot be stored", span)
        self.mark_valid(target)
        for (name, _), item in zip(members(target.type), value, strict=True):
            self.const_into(item, target.member(name), span)

    def convert(self, target: SlotPlace, source: SlotPlace) -> None:
        """Copy member by member between types of different layout, as a tuple into a header."""
        if is_scalar(target.type) or size_of(target.type) == size_of(source.type):
            self.copy(target, source)
            return
        self.mark_valid(target)
        pairs = zip(members(target.type), members(source.type), strict=True)
        for (to_name, _), (from_name, _) in pairs:
            self.convert(target.member(to_name), source.member(from_name))

    def mark_valid(self, place: SlotPlace) -> None:
        """If the place is a header, make it valid with zero fields."""
        if is_header(place.type):
            header = ir.HeaderAt(self.frame.header_at[place.base])
            self.emit(ir.SetInvalid(header=header, span=self.span))
            self.emit(ir.SetValid(header=header, span=self.span))

    def ordered(self, thunks: Sequence[Callable[[], Value]]) -> list[Value]:
        """Evaluate operands left to right; earlier values survive the effects of later operands."""
        values: list[Value] = []
        for thunk in thunks:
            with self.captured() as effects:
                value = thunk()
            if effects:
                values = [self.keep(v) for v in values]
                self.out.extend(effects)
            values.append(value)
        return values

    def keep(self, value: Value) -> Value:
        """The value in a temporary, where later statements could change it."""
        if isinstance(value, ir.Expr):
            if isinstance(value, ir.Const):
                return value
            if isinstance(value, ir.Load) and self.frame.slots[value.slot].name.startswith("$t"):
                return value
            return self.in_temp(value)
        if isinstance(value, SlotPlace | ElementPlace):
            temp = self.temp(value.type)
            self.copy(temp, value)
            return temp
        return value

    def temp(self, type_: Type) -> SlotPlace:
        """Storage for a value that must be kept."""
        return self.frame.temp(type_, self.span)

    def in_temp(self, value: ir.Expr) -> ir.Load:
        """A scalar's value in a temporary."""
        temp = self.temp(BitsT(value.width))
        self.emit(ir.Assign(target=ir.SlotRef(temp.base, value.width), value=value, span=self.span))
        return ir.Load(value.width, temp.base)

    # --- storage ---

    def load(self, place: Place) -> ir.Expr:
        """A scalar place's value."""
        if isinstance(place, SlicePlace):
            return load_slice(self.load(place.whole), place)
        width = scalar_width(place.type)
        if isinstance(place, SlotPlace):
            return ir.Load(width, place.base)
        return ir.LoadElement(width, place.array, place.offset, place.index)

    def lvalue(self, place: Storage) -> ir.LValue:
        """A scalar place as the target of a write."""
        width = scalar_width(place.type)
        if isinstance(place, SlotPlace):
            return ir.SlotRef(place.base, width)
        return ir.ElementRef(place.array, place.offset, place.index, width)

    def store(self, place: Place, value: ir.Expr) -> None:
        """Write a scalar."""
        if isinstance(place, SlicePlace):
            value = merge_slice(self.load(place.whole), place, value)
            place = place.whole
        self.emit(ir.Assign(target=self.lvalue(place), value=value, span=self.span))

    def copy(self, target: Storage, source: Storage) -> None:
        """Copy a whole value between places of equal layout; a union keeps one valid member."""
        count = size_of(target.type)
        if count == 0 or target == source:
            return
        if is_scalar(target.type):
            self.store(target, self.load(source))
        elif isinstance(source, ElementPlace) and isinstance(target, ElementPlace):
            temp = self.temp(target.type)
            self.copy(temp, source)
            self.copy(target, temp)
        elif isinstance(source, ElementPlace):
            assert isinstance(target, SlotPlace)
            self._copy_element(source, target.base, count, load=True)
            self.one_valid(target)
        elif isinstance(target, ElementPlace):
            with self.whole_union(target) as inner:
                if isinstance(inner, SlotPlace):
                    self.copy(inner, source)
                else:
                    self._copy_element(inner, source.base, count, load=False)
        else:
            self.emit(ir.Copy(target=target.base, source=source.base, count=count, span=self.span))
            self.one_valid(target)

    def _copy_element(self, place: ElementPlace, slot: int, count: int, *, load: bool) -> None:
        self.emit(
            ir.CopyElement(
                array=place.array,
                index=place.index,
                offset=place.offset,
                slot=slot,
                count=count,
                load=load,
                span=self.span,
            )
        )

    @contextmanager
    def whole_union(self, place: ElementPlace) -> Iterator[Storage]:
        """The place itself; or, for a member of a union in a stack, a copy that is written back."""
        stack = self.frame.array_types[place.array]
        if not is_union(stack.element) or not is_header(place.type):
            yield place
            return
        whole = ElementPlace(place.array, place.index, 0, stack.element)
        temp = self.temp(stack.element)
        self.copy(temp, whole)
        yield SlotPlace(temp.base + place.offset, place.type)
        self._copy_element(whole, temp.base, size_of(stack.element), load=False)

    def one_valid(self, place: SlotPlace) -> None:
        """After a write to a union's member: if it is valid now, the other members are not."""
        others = self.frame.siblings.get(place.base)
        if others is None or not is_header(place.type):
            return
        self.emit(
            ir.If(
                cond=ir.Load(1, place.base),
                then=tuple(ir.SetInvalid(header=ir.HeaderAt(i), span=self.span) for i in others),
                span=self.span,
            )
        )

    def zero(self, place: Storage) -> None:
        """Clear a value: zeros, invalid headers."""
        if isinstance(place, ElementPlace):
            temp = self.temp(place.type)
            self.zero(temp)
            self._copy_element(place, temp.base, size_of(place.type), load=False)
        elif size_of(place.type):
            self.emit(ir.Zero(target=place.base, count=size_of(place.type), span=self.span))

    @contextmanager
    def header(self, place: Storage) -> Iterator[ir.HeaderRef]:
        """A header for a statement that names one."""
        if isinstance(place, SlotPlace):
            yield ir.HeaderAt(self.frame.header_at[place.base])
            return
        if is_header(self.frame.array_types[place.array].element):
            yield ir.HeaderIn(place.array, place.index)
            return
        with self.whole_union(place) as inner:
            if isinstance(inner, SlotPlace):
                yield ir.HeaderAt(self.frame.header_at[inner.base])
                return
            temp = self.temp(place.type)
            self.copy(temp, place)
            yield ir.HeaderAt(self.frame.header_at[temp.base])
            self.copy(place, temp)


def load_slice(whole: ir.Expr, place: SlicePlace) -> ir.Expr:
    """The bits of a slice."""
    width = place.type.width
    if isinstance(place.low, int):
        return slice_(whole, place.low + width - 1, place.low)
    return slice_(binary(ir.BinOp.SHR, whole, place.low), width - 1, 0)


def merge_slice(whole: ir.Expr, place: SlicePlace, value: ir.Expr) -> ir.Expr:
    """The whole with the slice's bits replaced."""
    low = place.low if isinstance(place.low, ir.Expr) else const(32, place.low)
    ones = const(whole.width, mask_of(place.type.width))
    hole = unary(ir.UnOp.INV, binary(ir.BinOp.SHL, ones, low))
    kept = binary(ir.BinOp.AND, whole, hole)
    bits = resize(value, whole.width, signed=False)
    if place.low != 0:
        bits = binary(ir.BinOp.SHL, bits, low)
    return binary(ir.BinOp.OR, kept, bits)
