"""Lowering of v1model's externs and of P4's built-in methods."""

from __future__ import annotations

from collections.abc import Callable

from sglb.p4 import ast, ir
from sglb.p4.checked import BoundArg, CallInfo, CallKind
from sglb.p4.control_plane import CpDigest
from sglb.p4.ir import BinOp
from sglb.p4.ir_build import any_of, binary, const, resize
from sglb.p4.layout import (
    ElementPlace,
    Place,
    SlicePlace,
    SlotPlace,
    Storage,
    bit_width,
    is_scalar,
    is_union,
    members,
    min_bit_width,
    size_of,
    strip,
)
from sglb.p4.lower_call import Passed, evaluate, extern_of
from sglb.p4.lower_core import CALLS, FUNCTIONS, METHODS, Body
from sglb.p4.lower_data import Invalid, data_fields, header_of, preserved_slots, validity
from sglb.p4.lower_env import ExternInst, Value, name_annotation, problem
from sglb.p4.lower_expr import as_slots, rule
from sglb.p4.lower_parser import argument
from sglb.p4.types import BitsT, EnumT, StackT, StructT, Type


@rule(CALLS, CallKind.METHOD)
def call_method(body: Body, call: ast.Call, info: CallInfo) -> Value:
    """A method of an extern instance or packet."""
    assert info.receiver is not None
    extern = extern_of(body, info.receiver)
    kind = extern.extern
    if kind == "packet":
        kind = "packet_out" if info.name == "emit" else "packet_in"
    method = METHODS.get((kind, info.name))
    if method is None:
        raise problem(f"{kind}.{info.name} is not supported", call.span)
    return method(body, call, info)


@rule(CALLS, CallKind.EXTERN_FUNCTION)
def call_extern_function(body: Body, call: ast.Call, info: CallInfo) -> Value:
    """An extern function."""
    function = FUNCTIONS.get(info.name)
    if function is None:
        raise problem(
            f"extern function {info.name} is not one of v1model's, so there is nothing to run it",
            call.span,
        )
    if body.kind in ("control", "action"):
        body.lowering.has_externs = True
    return function(body, call, info)


# --- results --------------------------------------------------------------------------------------


class Outs:
    """The results of an extern: written directly where they are whole scalars, else copied after."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self.after: list[Callable[[], None]] = []

    def scalar(self, place: Place) -> ir.LValue:
        """The l-value for a scalar result."""
        if not isinstance(place, SlicePlace):
            return self.body.lvalue(place)
        temp = self.body.temp(place.type)
        self.body.store(temp, self.body.load(place))
        self.after.append(lambda: self.body.store(place, self.body.load(temp)))
        return self.body.lvalue(temp)

    def whole(self, place: Storage) -> tuple[ir.LValue, ...]:
        """One l-value a slot of a result of any type."""
        if isinstance(place, ElementPlace):
            temp = self.body.temp(place.type)
            self.body.copy(temp, place)
            self.after.append(lambda: self.body.copy(place, temp))
            place = temp
        slots = range(place.base, place.base + size_of(place.type))
        return tuple(ir.SlotRef(s, self.body.frame.slots[s].width) for s in slots)

    def finish(self) -> None:
        """Copy what could not be written directly."""
        for copy in self.after:
            copy()


def _out_place(passed: Passed) -> Place:
    assert passed.place is not None
    return passed.place


def _emit_extern(body: Body, call: ast.Call, op: str, **parts: object) -> None:
    body.emit(ir.Extern(op=op, span=call.span, **parts))  # type: ignore[arg-type]


def _instance(body: Body, info: CallInfo) -> ExternInst:
    assert info.receiver is not None
    return extern_of(body, info.receiver)


def _scalar(value: Value) -> ir.Expr:
    assert isinstance(value, ir.Expr)
    return value


# --- stateful externs -----------------------------------------------------------------------------


@rule(METHODS, ("register", "read"))
def register_read(body: Body, call: ast.Call, info: CallInfo) -> Value:
    """`register.read(result, index)`."""
    result, index = evaluate(body, call, info.args, call.args)
    place = _out_place(result)
    outs = Outs(body)
    targets: tuple[ir.LValue, ...]
    if isinstance(place, SlicePlace) or is_scalar(place.type):
        targets = (outs.scalar(place),)
    else:
        targets = outs.whole(place)
    instance = _instance(body, info).index
    ins = (_scalar(index.value),)
    _emit_extern(body, call, "register.read", instance=instance, ins=ins, outs=targets)
    outs.finish()
    return None


@rule(METHODS, ("register", "write"))
def register_write(body: Body, call: ast.Call, info: CallInfo) -> Value:
    """`register.write(index, value)`."""
    index, value = evaluate(body, call, info.args, call.args)
    ins: tuple[ir.Expr, ...] = (_scalar(index.value),)
    if isinstance(value.value, SlotPlace | ElementPlace):
        place = as_slots(body, value.value)
        slots = range(place.base, place.base + size_of(place.type))
        ins += tuple(ir.Load(body.frame.slots[s].width, s) for s in slots)
    else:
        ins += (_scalar(value.value),)
    _emit_extern(body, call, "register.write", instance=_instance(body, info).index, ins=ins)
    return None


@rule(METHODS, ("counter", "count"))
def counter_count(body: Body, call: ast.Call, info: CallInfo) -> Value:
    """`counter.count(index)`."""
    ins = (argument(body, info, 0),)
    _emit_extern(body, call, "counter.count", instance=_instance(body, info).index, ins=ins)
    return None


@rule(METHODS, ("meter", "execute_meter"))
def execute_meter(body: Body, call: ast.Call, info: CallInfo) -> Value:
    """`meter.execute_meter(index, result)`."""
    index, result = evaluate(body, call, info.args, call.args)
    outs = Outs(body)
    target = outs.scalar(_out_place(result))
    ins = (_scalar(index.value),)
    instance = _instance(body, info).index
    _emit_extern(body, call, "meter.execute_meter", instance=instance, ins=ins, outs=(target,))
    outs.finish()
    return None


@rule(METHODS, ("direct_counter", "count"))
def direct_count(body: Body, call: ast.Call, info: CallInfo) -> Value:  # noqa: ARG001
    """`direct_counter.count()`: applying the table counts, whatever its actions call."""
    return None


@rule(METHODS, ("direct_meter", "read"))
def direct_meter_read(body: Body, call: ast.Call, info: CallInfo) -> Value:
    """`direct_meter.read(result)`: the table leaves the colour in `result` when an entry is hit.

    A result that does not outlive the action, or a second one, is assigned from the first.
    """
    meter = _instance(body, info)
    result = evaluate(body, call, info.args, call.args)[0]
    place = _out_place(result)
    if meter.meter_result is None:
        local = _is_local(body, info.args[0])
        if isinstance(place, SlotPlace) and not local:
            meter.meter_result = body.lvalue(place)
            return None
        temp = body.temp(BitsT(2))
        meter.meter_result = body.lvalue(temp)
    target = None if isinstance(place, SlicePlace) else body.lvalue(place)
    if meter.meter_result != target:
        source = meter.meter_result
        assert isinstance(source, ir.SlotRef)
        colour = ir.Load(source.width, source.slot)
        width = place.type.width if isinstance(place, SlicePlace) else bit_width(place.type)
        body.store(place, resize(colour, width, signed=False))
    return None


def _is_local(body: Body, bound: BoundArg) -> bool:
    """Whether an argument lies in a variable or parameter of the action itself."""
    expr = bound.arg.value if bound.arg is not None else None
    while isinstance(expr, ast.Member | ast.Index | ast.Slice):
        expr = expr.base
    decl = body.checked.refs.get(id(expr))
    return decl is not None and id(decl) in body.env.bindings


@rule(METHODS, ("Checksum16", "get"))
def checksum_get(body: Body, call: ast.Call, info: CallInfo) -> Value:
    """`Checksum16.get(data)`."""
    data = _data(body, info, 0, Invalid.ZERO)
    temp = body.temp(BitsT(16))
    _emit_extern(
        body,
        call,
        "Checksum16.get",
        instance=_instance(body, info).index,
        outs=(body.lvalue(temp),),
        data=data,
        algorithm="csum16",
    )
    return body.load(temp)


# --- functions ------------------------------------------------------------------------------------


def _bound(info: CallInfo, name: str) -> BoundArg:
    for bound in info.args:
        if bound.param.name == name:
            return bound
    raise problem(f"{info.name} has no parameter {name}", info.args[0].param.span)


def _arg_expr(bound: BoundArg) -> ast.Expr:
    expr = bound.param.default if bound.arg is None else bound.arg.value
    if expr is None:
        raise problem(f"there is no argument for {bound.param.name}", bound.param.span)
    return expr


def _data(body: Body, info: CallInfo, index: int, invalid: Invalid) -> tuple[ir.DataField, ...]:
    bound = info.args[index]
    type_ = body.lowering.substitute(bound.type, body.env)
    return data_fields(body, _arg_expr(bound), invalid, type_)


def _algorithm(body: Body, bound: BoundArg) -> str:
    expr = _arg_expr(bound)
    type_ = body.lowering.substitute(bound.type, body.env)
    if not isinstance(type_, EnumT):
        raise problem("a HashAlgorithm is expected here", expr.span)
    return type_.members[body.constant(expr, "the hash algorithm")]


@rule(FUNCTIONS, "hash")
def hash_function(body: Body, call: ast.Call, info: CallInfo) -> Value:
    """`hash(result, algorithm, base, data, max)`."""
    result = body.place(_arg_expr(info.args[0]), fix=True)
    algorithm = _algorithm(body, info.args[1])
    base, limit = body.ordered([lambda: argument(body, info, 2), lambda: argument(body, info, 4)])
    with body.captured() as effects:
        data = _data(body, info, 3, Invalid.ZERO)
    if effects:
        base, limit = body.keep(base), body.keep(limit)
        body.emit(*effects)
    outs = Outs(body)
    target = outs.scalar(result)
    ins = (_scalar(base), _scalar(limit))
    _emit_extern(body, call, "hash", ins=ins, outs=(target,), data=data, algorithm=algorithm)
    outs.finish()
    return None


@rule(FUNCTIONS, "random")
def random_function(body: Body, call: ast.Call, info: CallInfo) -> Value:
    """`random(result, lo, hi)`."""
    result, low, high = evaluate(body, call, info.args, call.args)
    outs = Outs(body)
    target = outs.scalar(_out_place(result))
    ins = (_scalar(low.value), _scalar(high.value))
    _emit_extern(body, call, "random", ins=ins, outs=(target,))
    outs.finish()
    return None


@rule(FUNCTIONS, "digest")
def digest(body: Body, call: ast.Call, info: CallInfo) -> Value:
    """`digest<T>(receiver, data)`: one instance a data type, named by it."""
    receiver = argument(body, info, 0)
    type_ = body.lowering.substitute(info.type_args[0], body.env)
    data = _data(body, info, 1, Invalid.AS_IS)
    instance, shown = _digest_instance(body, type_)
    owner = body.action_inst or body.block_inst
    if owner is not None and shown not in owner.digests:
        owner.digests.append(shown)
    _emit_extern(body, call, "digest", instance=instance, ins=(receiver,), data=data)
    return None


def _digest_instance(body: Body, type_: Type) -> tuple[int, CpDigest]:
    lowering = body.lowering
    for index, shown in lowering.digests.items():
        if shown.type == type_ and isinstance(type_, StructT):
            return index, shown
    if isinstance(type_, StructT) and type_.decl is not None:
        name = name_annotation(type_.decl.annotations, type_.name).removeprefix(".")
    else:
        autos = sum(1 for d in lowering.digests.values() if d.name.startswith("digest_"))
        name = f"digest_{autos}"
    index = len(lowering.instances)
    lowering.instances.append(ir.Instance(ir.InstanceKind.DIGEST, name))
    lowering.digests[index] = CpDigest(name, type=type_)
    return index, lowering.digests[index]


@rule(FUNCTIONS, "mark_to_drop")
def mark_to_drop(body: Body, call: ast.Call, info: CallInfo) -> Value:
    """Both forms of mark_to_drop."""
    place: Place = body.lowering.standard_metadata
    if info.args:
        place = body.place(_arg_expr(info.args[0]), fix=True)
    if isinstance(place, SlicePlace):
        raise problem("standard_metadata is expected here", call.span)
    outs = (body.lvalue(place.member("egress_spec")), body.lvalue(place.member("mcast_grp")))
    _emit_extern(body, call, "mark_to_drop", outs=outs)
    return None


@rule(FUNCTIONS, "clone")
def clone(body: Body, call: ast.Call, info: CallInfo) -> Value:
    """`clone(type, session)`."""
    ins = (argument(body, info, 0), argument(body, info, 1))
    _emit_extern(body, call, info.name, ins=ins)
    return None


@rule(FUNCTIONS, "clone_preserving_field_list")
def clone_preserving(body: Body, call: ast.Call, info: CallInfo) -> Value:
    """`clone_preserving_field_list(type, session, index)`."""
    ins = (argument(body, info, 0), argument(body, info, 1))
    index = body.constant(_arg_expr(info.args[2]), "a field list's index")
    _emit_extern(body, call, info.name, ins=ins, number=index)
    return None


@rule(FUNCTIONS, "clone3")
def clone3(body: Body, call: ast.Call, info: CallInfo) -> Value:
    """`clone3(type, session, data)`."""
    ins = (argument(body, info, 0), argument(body, info, 1))
    data = _data(body, info, 2, Invalid.AS_IS)
    preserved = preserved_slots(data)
    _emit_extern(body, call, info.name, ins=ins, data=data, preserved=preserved)
    return None


@rule(FUNCTIONS, "resubmit", "recirculate")
def resubmit(body: Body, call: ast.Call, info: CallInfo) -> Value:
    """`resubmit(data)` and `recirculate(data)`."""
    data = _data(body, info, 0, Invalid.AS_IS)
    _emit_extern(body, call, info.name, data=data, preserved=preserved_slots(data))
    return None


@rule(FUNCTIONS, "resubmit_preserving_field_list", "recirculate_preserving_field_list")
def resubmit_preserving(body: Body, call: ast.Call, info: CallInfo) -> Value:
    """`resubmit_preserving_field_list(index)` and the same for recirculate."""
    index = body.constant(_arg_expr(info.args[0]), "a field list's index")
    _emit_extern(body, call, info.name, number=index)
    return None


@rule(FUNCTIONS, "truncate", "assert", "assume")
def one_input(body: Body, call: ast.Call, info: CallInfo) -> Value:
    """`truncate(length)`, `assert(check)`, `assume(check)`."""
    _emit_extern(body, call, info.name, ins=(argument(body, info, 0),))
    return None


@rule(FUNCTIONS, "verify_checksum", "verify_checksum_with_payload")
def verify_checksum(body: Body, call: ast.Call, info: CallInfo) -> Value:
    """`verify_checksum(condition, data, checksum, algorithm)`.

    Nothing is checked against a field of a header that isn't there.
    """
    condition = argument(body, info, 0)
    data = _data(body, info, 1, Invalid.SKIP)
    expr = _arg_expr(info.args[2])
    checksum = argument(body, info, 2)
    header = header_of(body, expr)
    if header is not None:
        condition = binary(BinOp.LAND, condition, validity(header))
    algorithm = _algorithm(body, info.args[3])
    ins = (condition, checksum)
    _emit_extern(body, call, info.name, ins=ins, data=data, algorithm=algorithm)
    return None


@rule(FUNCTIONS, "update_checksum", "update_checksum_with_payload")
def update_checksum(body: Body, call: ast.Call, info: CallInfo) -> Value:
    """`update_checksum(condition, data, checksum, algorithm)`."""
    condition = argument(body, info, 0)
    data = _data(body, info, 1, Invalid.SKIP)
    place = body.place(_arg_expr(info.args[2]), fix=True)
    algorithm = _algorithm(body, info.args[3])
    outs = Outs(body)
    target = outs.scalar(place)
    _emit_extern(
        body, call, info.name, ins=(condition,), outs=(target,), data=data, algorithm=algorithm
    )
    outs.finish()
    return None


@rule(FUNCTIONS, "log_msg")
def log_msg(body: Body, call: ast.Call, info: CallInfo) -> Value:
    """`log_msg(text)` and `log_msg(text, data)`."""
    text = body.known(_arg_expr(info.args[0]))
    if not isinstance(text, str):
        raise problem("the text of log_msg must be a string", call.span)
    data: tuple[ir.DataField, ...] = ()
    if len(info.args) > 1:
        data = _data(body, info, 1, Invalid.AS_IS)
    _emit_extern(body, call, "log_msg", text=text, data=data)
    return None


@rule(FUNCTIONS, "verify")
def verify(body: Body, call: ast.Call, info: CallInfo) -> Value:
    """`verify(condition, error)`."""
    condition, error = argument(body, info, 0), argument(body, info, 1)
    body.emit(ir.Verify(cond=condition, error=error, span=call.span))
    return None


@rule(FUNCTIONS, "static_assert")
def static_assert(body: Body, call: ast.Call, info: CallInfo) -> Value:  # noqa: ARG001
    """`static_assert(…)`: the checker has seen to it."""
    return const(1, 1)


# --- built-in methods -----------------------------------------------------------------------------


@rule(CALLS, CallKind.BUILTIN)
def call_builtin(body: Body, call: ast.Call, info: CallInfo) -> Value:
    """isValid, setValid, setInvalid, push_front, pop_front and the size queries."""
    assert info.receiver is not None
    if info.name == "isValid":
        return _is_valid(body, info.receiver)
    if info.name in ("setValid", "setInvalid"):
        _set_validity(body, call, info)
    elif info.name in ("push_front", "pop_front"):
        _push(body, call, info)
    else:
        return _size_query(body, call, info)
    return None


def _is_valid(body: Body, expr: ast.Expr) -> ir.Expr:
    place = body.place(expr, fix=False)
    if isinstance(place, SlicePlace):
        raise problem("a header is expected here", expr.span)
    if not is_union(strip(place.type)):
        return validity(place)
    return any_of(validity(place.member(name)) for name, _ in members(place.type))


def _set_validity(body: Body, call: ast.Call, info: CallInfo) -> None:
    assert info.receiver is not None
    place = body.place(info.receiver, fix=True)
    if isinstance(place, SlicePlace):
        raise problem("a header is expected here", call.span)
    if is_union(strip(place.type)):
        if info.name == "setValid":
            raise problem("a header union has no setValid; call it on a member", call.span)
        slots = as_slots(body, place)
        for name, _ in members(place.type):
            index = body.frame.header_at[slots.member(name).base]
            body.emit(ir.SetInvalid(header=ir.HeaderAt(index), span=call.span))
        if slots != place:
            body.copy(place, slots)
        return
    with body.header(place) as header:
        if info.name == "setInvalid":
            body.emit(ir.SetInvalid(header=header, span=call.span))
            return
        body.emit(ir.SetValid(header=header, span=call.span))
        if isinstance(header, ir.HeaderAt):
            others = body.frame.siblings.get(body.frame.headers[header.header].valid, ())
            body.emit(*(ir.SetInvalid(header=ir.HeaderAt(i), span=call.span) for i in others))


def _push(body: Body, call: ast.Call, info: CallInfo) -> None:
    assert info.receiver is not None
    place = body.place(info.receiver, fix=True)
    type_ = strip(body.own_type(info.receiver))
    if not isinstance(place, SlotPlace) or not isinstance(type_, StackT):
        raise problem(f"{info.name} needs a header stack known at compile time", call.span)
    value = call.args[0].value
    assert value is not None
    count = body.constant(value, f"the argument of {info.name}")
    array = body.frame.array_at[place.base, type_]
    signed = count if info.name == "push_front" else -count
    body.emit(ir.Push(array=array, count=signed, span=call.span))


def _size_query(body: Body, call: ast.Call, info: CallInfo) -> ir.Expr:
    assert info.receiver is not None
    expr = info.receiver
    type_ = body.typeref(expr.type) if isinstance(expr, ast.TypeExpr) else body.own_type(expr)
    widths: dict[str, Callable[[Type], int]] = {
        "minSizeInBits": min_bit_width,
        "maxSizeInBits": bit_width,
        "minSizeInBytes": lambda t: (min_bit_width(t) + 7) // 8,
        "maxSizeInBytes": lambda t: (bit_width(t) + 7) // 8,
    }
    query = widths.get(info.name)
    if query is None:
        raise problem(f"{info.name} is not supported", call.span)
    return const(32, query(type_))
