"""Literals and operators: types and compile-time values (specification chapter 8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sglb.p4 import ast, constants
from sglb.p4.check_types import resolve
from sglb.p4.checked import Const
from sglb.p4.coerce import (
    ANONYMOUS,
    castable,
    coerce,
    comparable,
    const_as,
    const_of,
    mismatch,
)
from sglb.p4.constants import ConstError
from sglb.p4.scope import Env, expr_rule
from sglb.p4.source import Span
from sglb.p4.types import (
    BitsT,
    BoolT,
    DontCareT,
    FieldT,
    IntT,
    InvalidT,
    ListT,
    NewT,
    SerEnumT,
    SetT,
    StackT,
    StringT,
    StructT,
    TupleT,
    Type,
)
from sglb.p4.unify import bare

_WORD: Final = {
    "+": "add",
    "-": "subtract",
    "*": "multiply",
    "/": "divide",
    "%": "take the remainder of",
    "|+|": "add",
    "|-|": "subtract",
    "&": "combine",
    "|": "combine",
    "^": "combine",
}


def compute(env: Env, span: Span, fn: Callable[[], Const]) -> Const:
    """Run a compile-time operation; its failure becomes an error at `span`."""
    try:
        return fn()
    except ConstError as e:
        raise env.error(str(e), span) from None


# --- literals -------------------------------------------------------------------------------------


@expr_rule(ast.IntLit)
def _int(env: Env, e: ast.IntLit) -> Type:
    if e.width is None:
        env.set_const(e, e.value)
        return IntT()
    t = BitsT(e.width, e.signed)
    if e.signed and e.width == 0:
        raise env.error("the width of a signed literal must be at least 1", e.span)
    if not constants.fits(e.value, t):
        env.warn(f"{e.value} does not fit {t} and is cut to its width", e.span)
    env.set_const(e, constants.wrap(e.value, t))
    return t


@expr_rule(ast.BoolLit)
def _bool(env: Env, e: ast.BoolLit) -> Type:
    env.set_const(e, e.value)
    return BoolT()


@expr_rule(ast.StringLit)
def _string(env: Env, e: ast.StringLit) -> Type:
    env.set_const(e, e.value)
    return StringT()


@expr_rule(ast.InvalidHeader)
def _invalid(env: Env, e: ast.InvalidHeader) -> Type:
    env.known_ids.add(id(e))
    return InvalidT()


@expr_rule(ast.Default)
def _default(env: Env, e: ast.Default) -> Type:
    env.known_ids.add(id(e))
    return DontCareT()


@expr_rule(ast.ListExpr)
def _list(env: Env, e: ast.ListExpr) -> Type:
    t = TupleT(tuple(env.expr(i) for i in e.items))
    _value_items(env, e.items)
    _all_const(env, e, e.items, e.dots)
    return t


@expr_rule(ast.StructExpr)
def _struct(env: Env, e: ast.StructExpr) -> Type:
    names = [name for name, _ in e.fields]
    for i, name in enumerate(names):
        if name in names[:i]:
            raise env.error(f"field '{name}' is given twice", e.fields[i][1].span)
    fields = tuple(FieldT(name, env.expr(value)) for name, value in e.fields)
    items = tuple(value for _, value in e.fields)
    _value_items(env, items)
    _all_const(env, e, items, e.dots)
    return StructT(ANONYMOUS, "struct", fields)


def _value_items(env: Env, items: tuple[ast.Expr, ...]) -> None:
    for item in items:
        if isinstance(env.type(item), SetT):
            raise env.error("a set cannot be part of a value", item.span)


def _all_const(env: Env, e: ast.Expr, items: tuple[ast.Expr, ...], dots: bool) -> None:
    values = [env.const(i) for i in items]
    whole = [v for v in values if v is not None]
    if len(whole) == len(values) and not dots:
        env.set_const(e, tuple(whole))
    elif all(env.known(i) for i in items):
        env.known_ids.add(id(e))


# --- unary ----------------------------------------------------------------------------------------


@expr_rule(ast.Unary)
def _unary(env: Env, e: ast.Unary) -> Type:
    t = numeric(env, e.operand)
    value = const_of(env, e.operand)
    if e.op == "!":
        if not isinstance(t, BoolT):
            raise env.error(f"'!' needs a bool, but this is {t}", e.operand.span)
        if value is not None:
            env.set_const(e, not value)
        return t
    allowed = isinstance(t, BitsT) or (isinstance(t, IntT) and e.op != "~")
    if not allowed:
        hint = "an int has no width: write it with one, like 8w1" if isinstance(t, IntT) else ""
        raise env.error(f"'{e.op}' is not defined on {t}", e.span, hint)
    if isinstance(value, int):
        result = {"-": -value, "+": value, "~": ~value}[e.op]
        env.set_const(e, constants.wrap(result, t) if isinstance(t, BitsT) else result)
    return t


def numeric(env: Env, e: ast.Expr) -> Type:
    """Type an operand; a serializable enum turns into its underlying type."""
    t = env.checked.types.get(id(e)) or env.expr(e)
    if isinstance(t, SerEnumT):
        env.checked.coercions[id(e)] = t.underlying
        return t.underlying
    return t


# --- binary ---------------------------------------------------------------------------------------


@expr_rule(ast.Binary)
def _binary(env: Env, e: ast.Binary) -> Type:
    match e.op:
        case "&&" | "||":
            return _logical(env, e)
        case "==" | "!=":
            return _equality(env, e)
        case "<" | "<=" | ">" | ">=":
            return _ordering(env, e)
        case "<<" | ">>":
            return _shift(env, e)
        case "++":
            return _concat(env, e)
        case "&&&" | "..":
            return _set(env, e)
    return _arithmetic(env, e)


def _logical(env: Env, e: ast.Binary) -> Type:
    for side in (e.left, e.right):
        t = env.expr(side)
        if not isinstance(t, BoolT):
            hint = "compare it with something, like '!= 0'" if isinstance(t, BitsT) else ""
            raise env.error(f"'{e.op}' needs bool operands, but this is {t}", side.span, hint)
    left, right = env.const(e.left), env.const(e.right)
    if left is not None and bool(left) is (e.op == "||"):
        env.set_const(e, left)
    elif left is not None and right is not None:
        env.set_const(e, right)
    return BoolT()


def meet(env: Env, e: ast.Expr, left: ast.Expr, right: ast.Expr, what: str) -> Type:
    """The common type of two numeric operands, an `int` adapting to the other side's width.

    `what` is the operation, for messages ("add", "compare").
    """
    a, b = numeric(env, left), numeric(env, right)
    for t, side in ((a, left), (b, right)):
        if not isinstance(t, BitsT | IntT):
            raise env.error(f"cannot {what} values of type {t}", side.span, _number_hint(t))
    if a == b:
        return a
    if isinstance(a, IntT):
        coerce(env, left, b, "the left operand")
        return b
    if isinstance(b, IntT):
        coerce(env, right, a, "the right operand")
        return a
    assert isinstance(a, BitsT)
    assert isinstance(b, BitsT)
    different = "widths" if a.width != b.width else "signs"
    raise env.error(
        f"cannot {what} {a} and {b}: different {different}",
        e.span,
        f"cast one side, like ({a}) before the other",
    )


def _number_hint(t: Type) -> str:
    match t:
        case BoolT():
            return "cast it with (bit<1>)"
        case StringT():
            return "strings are joined with ++"
    return ""


def arith_type(env: Env, e: ast.Expr, op: str, left: ast.Expr, right: ast.Expr) -> Type:
    """Type of an arithmetic or bitwise operation, also for `op=` statements."""
    t = meet(env, e, left, right, _WORD[op])
    if isinstance(t, IntT) and op in ("|+|", "|-|"):
        raise env.error(
            f"'{op}' is not defined on int, which has no width",
            e.span,
            "write one operand with a width, like 8w1",
        )
    if op in ("/", "%"):
        if isinstance(t, BitsT) and t.signed:
            raise env.error(f"'{op}' is not defined on signed values ({t})", e.span)
        divisor = const_of(env, right)
        if isinstance(divisor, int) and divisor <= 0:
            why = "division by zero" if op == "/" else "modulo by zero"
            raise env.error(why if divisor == 0 else f"'{op}' by a negative number", e.span)
    return t


def _arithmetic(env: Env, e: ast.Binary) -> Type:
    t = arith_type(env, e, e.op, e.left, e.right)
    if e.op in ("/", "%") and not (env.known(e.left) and env.known(e.right)):
        check_divisor(env, e, e.op, e.right)
    a, b = const_of(env, e.left), const_of(env, e.right)
    if isinstance(a, int) and isinstance(b, int):
        env.set_const(e, compute(env, e.span, lambda: constants.arithmetic(e.op, a, b, t)))
    return t


def check_divisor(env: Env, node: ast.Node, op: str, right: ast.Expr) -> None:
    """Check a division at run time: only one that is a shift or mask can be done."""
    divisor = const_of(env, right)
    if isinstance(divisor, int) and divisor > 0 and divisor & (divisor - 1) == 0:
        return
    word = "division" if op == "/" else "modulo"
    raise env.error(
        f"{word} is possible only between values known at compile time, or by a power of two",
        node.span,
    )


def _ordering(env: Env, e: ast.Binary) -> Type:
    meet(env, e, e.left, e.right, "compare")
    a, b = const_of(env, e.left), const_of(env, e.right)
    if a is not None and b is not None:
        env.set_const(e, constants.compare(e.op, a, b))
    return BoolT()


def _equality(env: Env, e: ast.Binary) -> Type:
    a, b = env.expr(e.left), env.expr(e.right)
    t = common(env, e.left, a, e.right, b)
    if t is None:
        raise env.error(f"cannot compare {a} and {b}", e.span, _compare_hint(a, b))
    if not comparable(t):
        raise env.error(f"values of type {t} cannot be compared", e.span)
    x, y = const_of(env, e.left), const_of(env, e.right)
    if x is not None and y is not None:
        env.set_const(e, constants.compare(e.op, x, y))
    return BoolT()


def _compare_hint(a: Type, b: Type) -> str:
    if isinstance(a, BitsT) and isinstance(b, BitsT):
        return f"cast one side, like ({a}) before the other"
    return ""


def common(env: Env, left: ast.Expr, a: Type, right: ast.Expr, b: Type) -> Type | None:
    """The type two values are compared or joined in, None if there is none; converts either side."""
    if a == b:
        return None if isinstance(a, InvalidT | DontCareT) or _anonymous(a) else a
    for source, e, target in ((a, left, b), (b, right, a)):
        if _adapts(e, source, target):
            coerce(env, e, target, "this operand")
            return target
    if isinstance(a, SerEnumT) and isinstance(b, SerEnumT) and a.underlying == b.underlying:
        return common(env, left, numeric(env, left), right, numeric(env, right))
    if isinstance(a, SerEnumT) and isinstance(b, BitsT | IntT):
        return common(env, left, numeric(env, left), right, b)
    if isinstance(b, SerEnumT) and isinstance(a, BitsT | IntT):
        return common(env, left, a, right, numeric(env, right))
    return None


def _anonymous(t: Type) -> bool:
    return isinstance(t, StructT) and t.name == ANONYMOUS


def _adapts(e: ast.Expr, source: Type, target: Type) -> bool:
    match source, target:
        case IntT(), BitsT() | NewT():
            return isinstance(bare(target), BitsT)
        case InvalidT(), StructT(kind="header" | "header_union"):
            return True
        case StructT(), StructT():
            return _anonymous(source) and not _anonymous(target)
        case TupleT(items=a), TupleT(items=b) if isinstance(e, ast.ListExpr):
            return len(a) == len(b) and any(isinstance(t, IntT) for t in a)
        case TupleT(), StructT() | StackT() | ListT() if not _anonymous(target):
            return isinstance(e, ast.ListExpr)
    return False


def _shift(env: Env, e: ast.Binary) -> Type:
    t = numeric(env, e.left)
    shift_amount(env, e, t, e.right, e.op)
    if not isinstance(t, BitsT | IntT):
        raise env.error(f"cannot shift a value of type {t}", e.left.span)
    a, b = const_of(env, e.left), const_of(env, e.right)
    if isinstance(a, int) and isinstance(b, int):
        env.set_const(e, compute(env, e.span, lambda: constants.shift(e.op, a, b, t)))
    return t


def shift_amount(env: Env, e: ast.Node, left: Type, right: ast.Expr, op: str) -> None:
    """Check the amount of a shift of a value of type `left`."""
    amount = numeric(env, right)
    value = const_of(env, right)
    if isinstance(value, int) and value < 0:
        raise env.error(f"cannot shift by the negative amount {value}", right.span)
    if not isinstance(amount, BitsT | IntT):
        raise env.error(f"a shift amount must be bit<W> or int, but this is {amount}", right.span)
    if isinstance(amount, BitsT) and amount.signed and value is None:
        raise env.error(f"a shift amount must be unsigned, but this is {amount}", right.span)
    if isinstance(left, IntT) and not env.known(right):
        raise env.error(
            "an int without a width can be shifted only by a constant",
            e.span,
            f"give the left operand a width, like (bit<32>)… {op} …",
        )
    if isinstance(left, BitsT) and isinstance(value, int) and value >= left.width > 0:
        env.warn(f"shifting {left} by {value} leaves nothing of it", e.span)


def _concat(env: Env, e: ast.Binary) -> Type:
    a, b = numeric(env, e.left), numeric(env, e.right)
    x, y = const_of(env, e.left), const_of(env, e.right)
    if isinstance(a, StringT) and isinstance(b, StringT):
        if isinstance(x, str) and isinstance(y, str):
            env.set_const(e, x + y)
        return a
    for t, side in ((a, e.left), (b, e.right)):
        if not isinstance(t, BitsT):
            hint = "give it a width, like 8w1" if isinstance(t, IntT) else ""
            raise env.error(f"'++' is not defined on {t}", side.span, hint)
    assert isinstance(a, BitsT)
    assert isinstance(b, BitsT)
    if isinstance(x, int) and isinstance(y, int):
        env.set_const(e, constants.concat(x, a, y, b))
    return BitsT(a.width + b.width, a.signed)


def _set(env: Env, e: ast.Binary) -> Type:
    a, b = env.expr(e.left), env.expr(e.right)
    if a == b and isinstance(a, BitsT | IntT | SerEnumT):
        t: Type = a
    elif isinstance(a, SerEnumT) and isinstance(b, BitsT | IntT):
        coerce(env, e.right, a.underlying, "the right operand")
        t = a
    else:
        t = meet(env, e, e.left, e.right, "make a set of")
    low, high = const_of(env, e.left), const_of(env, e.right)
    if e.op == ".." and isinstance(low, int) and isinstance(high, int) and low > high:
        env.warn(f"the range {low}..{high} is empty", e.span)
    return SetT(t)


# --- ternary and cast -----------------------------------------------------------------------------


@expr_rule(ast.Ternary)
def _ternary(env: Env, e: ast.Ternary) -> Type:
    cond = env.expr(e.cond)
    if not isinstance(cond, BoolT):
        mismatch(env, BoolT(), cond, e.cond.span, "the condition of '?:'")
    a, b = env.expr(e.then), env.expr(e.other)
    t = a if a == b and _anonymous(a) else common(env, e.then, a, e.other, b)
    if t is None:
        raise env.error(f"the branches of '?:' have different types, {a} and {b}", e.span)
    if isinstance(t, IntT) and not env.known(e.cond):
        raise env.error(
            "neither branch of '?:' has a width",
            e.span,
            "write one with a width, like 8w1, or make the condition a constant",
        )
    choice = env.const(e.cond)
    if choice is not None:
        value = const_of(env, e.then if choice else e.other)
        if value is not None:
            env.set_const(e, value)
    return t


@expr_rule(ast.Cast)
def _cast(env: Env, e: ast.Cast) -> Type:
    target = resolve(env, e.type)
    source = env.expr(e.operand)
    literal = isinstance(e.operand, ast.ListExpr | ast.StructExpr | ast.InvalidHeader | ast.Default)
    if literal:
        coerce(env, e.operand, target, "the cast value")
    elif not castable(source, target):
        raise env.error(f"cannot cast {source} to {target}", e.span, _two_casts(source, target))
    if isinstance(target, IntT) and not env.known(e.operand):
        raise env.error("only a value known at compile time can be cast to int", e.span)
    value = const_as(env, e.operand, target)
    if value is not None:
        env.set_const(e, value)
    return target


def _two_casts(source: Type, target: Type) -> str:
    if isinstance(source, BitsT) and isinstance(target, BitsT):
        return (
            f"cast the width first, then the sign: ({target})({BitsT(target.width, source.signed)})"
        )
    if isinstance(source, BitsT) and isinstance(target, BoolT):
        return "compare it instead, like '!= 0'"
    if isinstance(source, BoolT) and isinstance(target, BitsT):
        return f"cast to bit<1> first: ({target})(bit<1>)"
    return ""
