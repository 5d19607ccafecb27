"""Parsing of tables, actions and parser states."""

from __future__ import annotations

from dataclasses import dataclass, field

from sglb.p4 import ast
from sglb.p4.lexer import NUMBER, Token
from sglb.p4.parser_stmts import StatementParser


@dataclass(slots=True)
class _TableParts:
    keys: tuple[ast.TableKey, ...] | None = None
    actions: tuple[ast.ActionRef, ...] | None = None
    entries: tuple[ast.TableEntry, ...] | None = None
    entries_const: bool = False
    properties: list[ast.TableProperty] = field(default_factory=list)


class TableParser(StatementParser):
    """Tables, actions and parser states."""

    def action(self, annotations: tuple[ast.Annotation, ...]) -> ast.ActionDecl:
        """Parse `action name(params) { … }`."""
        self.expect("action")
        name = self.name("the action's name")
        with self.scope():
            params = self.parameters()
            body = self.block("to open the action's body")
        self.declare_object(name.text)
        return ast.ActionDecl(
            span=name.span, name=name.text, annotations=annotations, params=params, body=body
        )

    # --- tables -----------------------------------------------------------------------------------

    def table(self, annotations: tuple[ast.Annotation, ...]) -> ast.TableDecl:
        """Parse `table name { properties }`."""
        self.expect("table")
        name = self.name("the table's name")
        self.expect("{", "to open the table")
        parts = _TableParts()
        while self.token.kind not in ("}", "end of file"):
            self._property(parts)
        self.expect("}", "to close the table")
        if parts.actions is None:
            hint = "add actions = { … }, in which NoAction may stand alone"
            raise self.error(f"table '{name.text}' has no actions", name.span, hint)
        self.declare_object(name.text)
        return ast.TableDecl(
            span=name.span,
            name=name.text,
            annotations=annotations,
            keys=parts.keys,
            actions=parts.actions or (),
            properties=tuple(parts.properties),
            entries=parts.entries,
            entries_const=parts.entries_const,
        )

    def _property(self, parts: _TableParts) -> None:
        annotations = self.annotations()
        is_const = self.accept("const") is not None
        if self.token.kind == ";":
            raise self.unexpected("expected a table property", "no ';' follows '}' here")
        name = self.name("a table property (key, actions, default_action, size, …)")
        if name.kind in ("key", "actions") and (annotations or is_const):
            raise self.error(f"'{name.text}' takes neither annotations nor 'const'", name.span)
        self.expect("=", f"after '{name.text}'")
        if name.kind == "key":
            if parts.keys is not None:
                raise self._twice(name)
            parts.keys = self._keys()
        elif name.kind == "actions":
            if parts.actions is not None:
                raise self._twice(name)
            parts.actions = self._actions()
        elif name.kind == "entries":
            if parts.entries is not None:
                raise self._twice(name)
            parts.entries = self._entries()
            parts.entries_const = is_const
        else:
            value = self.expression()
            self.expect(";", f"to end the property '{name.text}'")
            parts.properties.append(
                ast.TableProperty(
                    span=name.span,
                    name=name.text,
                    value=value,
                    is_const=is_const,
                    annotations=annotations,
                )
            )

    def _twice(self, name: Token) -> Exception:
        return self.error(f"this table has '{name.text}' twice", name.span)

    def _keys(self) -> tuple[ast.TableKey, ...]:
        self.expect("{", "to open the key")
        out: list[ast.TableKey] = []
        while self.token.kind not in ("}", "end of file"):
            start = self.token
            expr = self.expression()
            self.expect(":", "and the key's match kind")
            kind = self.name("a match kind (exact, lpm, ternary, …)")
            annotations = self.annotations()
            self.expect(";", "to end the key field")
            out.append(
                ast.TableKey(
                    span=start.span, expr=expr, match_kind=kind.text, annotations=annotations
                )
            )
        self.expect("}", "to close the key")
        return tuple(out)

    def _actions(self) -> tuple[ast.ActionRef, ...]:
        self.expect("{", "to open the list of actions")
        out: list[ast.ActionRef] = []
        while self.token.kind not in ("}", "end of file"):
            annotations = self.annotations()
            out.append(self._action_ref(annotations))
            if self.token.kind == ",":
                raise self.missing("expected ';'", "actions end in ';', not in ','")
            self.expect(";", "to end the action")
        self.expect("}", "to close the list of actions")
        return tuple(out)

    def _action_ref(self, annotations: tuple[ast.Annotation, ...]) -> ast.ActionRef:
        start = self.token
        absolute = self.accept(".") is not None
        name = self.name("an action's name")
        args = self.arguments() if self.token.kind == "(" else None
        return ast.ActionRef(
            span=self.span_from(start),
            name=name.text,
            absolute=absolute,
            args=args,
            annotations=annotations,
        )

    def _entries(self) -> tuple[ast.TableEntry, ...]:
        self.expect("{", "to open the entries")
        out: list[ast.TableEntry] = []
        while self.token.kind not in ("}", "end of file"):
            out.append(self._entry())
        self.expect("}", "to close the entries")
        return tuple(out)

    def _entry(self) -> ast.TableEntry:
        before = self.annotations()
        start = self.token
        is_const = self.accept("const") is not None
        priority: ast.Expr | None = None
        if self.token.kind == "priority" and self.peek().kind == "=":
            self.advance()
            self.advance()
            if self.token.kind not in (NUMBER, "("):
                raise self.unexpected("expected the priority", "put an expression in parentheses")
            priority = self.postfix()
            self.expect(":", "after the priority")
        keys = self.keyset()
        self.expect(":", "and the entry's action")
        action = self._action_ref(())
        annotations = before + self.annotations()
        self.expect(";", "to end the entry")
        return ast.TableEntry(
            span=start.span,
            keys=keys,
            action=action,
            priority=priority,
            is_const=is_const,
            annotations=annotations,
        )

    # --- parser states ----------------------------------------------------------------------------

    def state(self, annotations: tuple[ast.Annotation, ...]) -> ast.ParserState:
        """Parse `state name { … transition …; }`."""
        self.expect("state")
        name = self.name("the state's name")
        self.expect("{", "to open the state")
        with self.scope():
            body = self.statements(in_state=True)
            transition: ast.Select | str | None = None
            if self.accept("transition"):
                transition = self._transition()
        if self.token.kind != "}":
            hint = "'transition' is the state's last statement"
            if self.token.kind == ";":
                hint = "no ';' follows the cases of a select"
            raise self.unexpected("expected '}' to close the state", hint)
        self.advance()
        return ast.ParserState(
            span=name.span,
            name=name.text,
            annotations=annotations,
            body=body,
            transition=transition,
        )

    def _transition(self) -> ast.Select | str:
        if self.token.kind != "select":
            name = self.name("a state's name or 'select'").text
            self.expect(";", "after the state's name")
            return name
        start = self.advance()
        self.expect("(", "after 'select'")
        exprs = self.separated(")", self.expression)
        self.expect(")", "to close what is selected on")
        self.expect("{", "to open the cases")
        cases: list[ast.SelectCase] = []
        while self.token.kind not in ("}", "end of file"):
            first = self.token
            keys = self.keyset()
            self.expect(":", "and the next state")
            state = self.name("a state's name").text
            self.expect(";", "to end the case")
            cases.append(ast.SelectCase(span=first.span, keys=keys, state=state))
        self.expect("}", "to close the cases")
        return ast.Select(span=start.span, exprs=tuple(exprs), cases=tuple(cases))
