"""Syntax tree of P4_16 (specification 1.2.5), as the parser builds it, before names are resolved.

Every node is a frozen dataclass that carries the `Span` it came from. Nodes hold no types; the checker
(`sglb.p4.check`) computes those on the side.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sglb.p4.source import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Base of every node."""

    span: Span = field(compare=False)


# --- annotations ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation(Node):
    """`@name`, `@name(tokens)` or `@name[k=v, …]`.

    `body` is the text between the brackets as written (None when there are none); `tokens` its tokens'
    texts, strings unquoted and adjacent ones joined; `structured` tells the `[...]` form, whose parsed
    items are `exprs` (a bare expression list) or `pairs`.
    """

    name: str
    body: str | None = None
    tokens: tuple[str, ...] = ()
    structured: bool = False
    exprs: tuple[Expr, ...] = ()
    pairs: tuple[tuple[str, Expr], ...] = ()


# --- types ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeRef(Node):
    """Base of type expressions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseType(TypeRef):
    """`bool`, `error`, `string`, `int`, `match_kind`, `void`, `bit<W>`, `int<W>`, `varbit<W>`.

    `kind` is one of bool error string int match_kind void bit fixint varbit; `width` is None where it
    does not apply; plain `bit` is `bit<1>` (width literal 1).
    """

    kind: str
    width: Expr | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedType(TypeRef):
    """A type name, maybe applied to type arguments. `absolute` for a leading dot."""

    name: str
    args: tuple[TypeRef, ...] = ()
    absolute: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StackType(TypeRef):
    """`element[size]`: a header stack (or array)."""

    element: TypeRef
    size: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class TupleType(TypeRef):
    """`tuple<…>`, or `list<T>` when `is_list`."""

    args: tuple[TypeRef, ...]
    is_list: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DontCareType(TypeRef):
    """`_` as a type argument."""


# --- expressions ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Expr(Node):
    """Base of expressions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntLit(Expr):
    """`10`, `8w0xFF`, `4s3`: `width` None is the arbitrary-precision int; `radix` 2, 8, 10 or 16.

    `text` is the literal as written (P4Info names of masked keys keep the radix).
    """

    value: int
    width: int | None = None
    signed: bool = False
    radix: int = 10
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoolLit(Expr):
    """`true` or `false`."""

    value: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StringLit(Expr):
    """A string, unquoted, escapes resolved; adjacent literals are joined."""

    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Name(Expr):
    """An identifier; `absolute` for `.name`."""

    name: str
    absolute: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Member(Expr):
    """`base.name`. For `Type.name` and `error.X`, `base` is a `TypeExpr`."""

    base: Expr
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeExpr(Expr):
    """A type standing where an expression may (`error.NoError`, `E.a`, `MyParser.apply(…)`)."""

    type: TypeRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Index(Expr):
    """`base[index]`."""

    base: Expr
    index: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice(Expr):
    """`base[hi:lo]`; `plus_width` form `base[lo+:width]` has hi None and width set."""

    base: Expr
    hi: Expr | None
    lo: Expr
    width: Expr | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unary(Expr):
    """`op` is one of ! ~ - +."""

    op: str
    operand: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary(Expr):
    """`op` is one of * / % + - |+| |-| << >> < > <= >= == != & ^ | && || ++ &&& .. (sets)."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Ternary(Expr):
    """`cond ? then : other`."""

    cond: Expr
    then: Expr
    other: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast(Expr):
    """`(type) operand`."""

    type: TypeRef
    operand: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument(Node):
    """A call argument; `name` for `name = value`; `value` None is `_`."""

    value: Expr | None
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Expr):
    """`callee<types>(args)`: a function, method, action, extern, constructor or `Type(…)` expression."""

    callee: Expr
    type_args: tuple[TypeRef, ...] = ()
    args: tuple[Argument, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListExpr(Expr):
    """`{ a, b, … }`; `dots` when it ends in `...`."""

    items: tuple[Expr, ...]
    dots: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StructExpr(Expr):
    """`{ a = x, b = y }`; `dots` when it ends in `...`; optionally cast by `(T)` around it."""

    fields: tuple[tuple[str, Expr], ...]
    dots: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidHeader(Expr):
    """`{#}`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Default(Expr):
    """`default`, `_` (in key sets) or `...` (in initialisers)."""


# --- statements -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Stmt(Node):
    """Base of statements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block(Stmt):
    """`{ … }`; declarations stand among the statements as `DeclStmt`."""

    body: tuple[Stmt, ...]
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclStmt(Stmt):
    """A variable, constant or instance declared inside a body."""

    decl: VarDecl | ConstDecl | Instance


@dataclass(frozen=True, slots=True, kw_only=True)
class Assign(Stmt):
    """`target op= value`; `op` is the operator before `=` (`+`, `|+|` …), "" for plain assignment."""

    target: Expr
    value: Expr
    op: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStmt(Stmt):
    """A call as a statement, `T.apply(…)` on a type included."""

    call: Call


@dataclass(frozen=True, slots=True, kw_only=True)
class If(Stmt):
    """`if (cond) then else other`."""

    cond: Expr
    then: Stmt
    other: Stmt | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchCase(Node):
    """`label: body`; `label` a `Default` for `default`; `body` None falls through."""

    label: Expr
    body: Block | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch(Stmt):
    """`switch (subject) { … }`."""

    subject: Expr
    cases: tuple[SwitchCase, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class For(Stmt):
    """`for (init; cond; update) body`."""

    init: tuple[Stmt, ...]
    cond: Expr
    update: tuple[Stmt, ...]
    body: Stmt


@dataclass(frozen=True, slots=True, kw_only=True)
class ForIn(Stmt):
    """`for (type name in collection) body`; `type` None reuses a declared variable."""

    type: TypeRef | None
    name: str
    collection: Expr
    body: Stmt


@dataclass(frozen=True, slots=True, kw_only=True)
class Return(Stmt):
    """`return value;`."""

    value: Expr | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit(Stmt):
    """`exit;`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Break(Stmt):
    """`break;`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Continue(Stmt):
    """`continue;`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Empty(Stmt):
    """`;`."""


# --- declarations ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Decl(Node):
    """Base of declarations."""

    name: str
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Param(Decl):
    """`direction type name = default`; `direction` is "", "in", "out" or "inout"."""

    direction: str
    type: TypeRef
    default: Expr | None = None
    optional: bool = False  # @optional


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstDecl(Decl):
    """`const type name = value;`."""

    type: TypeRef
    value: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class VarDecl(Decl):
    """`type name = init;`."""

    type: TypeRef
    init: Expr | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance(Decl):
    """`Type(args) name;`, with `body` for abstract methods (`= { … }`)."""

    type: TypeRef
    args: tuple[Argument, ...] = ()
    body: tuple[Decl, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Field(Decl):
    """A field of a struct, header or union."""

    type: TypeRef


@dataclass(frozen=True, slots=True, kw_only=True)
class StructDecl(Decl):
    """`kind` is "struct", "header" or "header_union"."""

    kind: str
    fields: tuple[Field, ...]
    type_params: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EnumMember(Node):
    """A member of an enum; `value` for serializable ones."""

    name: str
    value: Expr | None = None
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EnumDecl(Decl):
    """`enum Name { … }` or `enum underlying Name { a = …, … }`."""

    members: tuple[EnumMember, ...]
    underlying: TypeRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorDecl(Decl):
    """`error { … }` (`name` is "error")."""

    members: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchKindDecl(Decl):
    """`match_kind { … }` (`name` is "match_kind")."""

    members: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedefDecl(Decl):
    """`typedef T name;`, or `type T name;` when `is_new`."""

    type: TypeRef
    is_new: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionSig(Decl):
    """A function, extern function, extern method or (result None) constructor prototype."""

    result: TypeRef | None
    params: tuple[Param, ...]
    type_params: tuple[str, ...] = ()
    abstract: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionDecl(Decl):
    """A function with a body, or (body None) an extern function."""

    signature: FunctionSig
    body: Block | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternDecl(Decl):
    """`extern Name<T> { methods }`; constructors have the extern's own name and result None."""

    methods: tuple[FunctionSig, ...]
    type_params: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionDecl(Decl):
    """`action name(params) { … }`."""

    params: tuple[Param, ...]
    body: Block


@dataclass(frozen=True, slots=True, kw_only=True)
class TableKey(Node):
    """`expr : match_kind @annotations;`."""

    expr: Expr
    match_kind: str
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRef(Node):
    """An action in a table's list; `args` the arguments bound in the program (None: no parentheses)."""

    name: str
    absolute: bool = False
    args: tuple[Argument, ...] | None = None
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEntry(Node):
    """`const priority=p : (keys) : action(args) @annotations;`."""

    keys: tuple[Expr, ...]
    action: ActionRef
    priority: Expr | None = None
    is_const: bool = False
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableProperty(Node):
    """`const name = value;`: any property but key, actions and entries (default_action, size …)."""

    name: str
    value: Expr
    is_const: bool = False
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDecl(Decl):
    """A table; `keys` None when it has no `key` property."""

    keys: tuple[TableKey, ...] | None
    actions: tuple[ActionRef, ...]
    properties: tuple[TableProperty, ...]
    entries: tuple[TableEntry, ...] | None = None
    entries_const: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectCase(Node):
    """`keyset : state;` — `keys` one expression a select operand (a single `Default` matches all)."""

    keys: tuple[Expr, ...]
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Select(Node):
    """`select (exprs) { cases }`."""

    exprs: tuple[Expr, ...]
    cases: tuple[SelectCase, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParserState(Decl):
    """`state name { … transition …; }`; transition None means an implicit reject."""

    body: tuple[Stmt, ...]
    transition: Select | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueSetDecl(Decl):
    """`value_set<T>(size) name;`."""

    type: TypeRef
    size: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class ParserDecl(Decl):
    """A parser, or (states None) a parser type."""

    params: tuple[Param, ...]
    type_params: tuple[str, ...] = ()
    constructor_params: tuple[Param, ...] = ()
    locals: tuple[Decl, ...] = ()
    states: tuple[ParserState, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlDecl(Decl):
    """A control, or (body None) a control type."""

    params: tuple[Param, ...]
    type_params: tuple[str, ...] = ()
    constructor_params: tuple[Param, ...] = ()
    locals: tuple[Decl, ...] = ()
    body: Block | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageDecl(Decl):
    """`package Name<T>(params);`."""

    params: tuple[Param, ...]
    type_params: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceProgram(Node):
    """A whole program: what the includes brought first, then the user's own."""

    decls: tuple[Decl, ...]
