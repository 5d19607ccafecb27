"""Parsing of statements, and of the declarations that stand among them."""

from __future__ import annotations

from typing import Final

from sglb.p4 import ast
from sglb.p4.lexer import NAME_KINDS, Token
from sglb.p4.parser_exprs import ExpressionParser

_ASSIGNMENTS: Final = frozenset(
    {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", "|+|=", "|-|="}
)
_NO_STATEMENTS: Final = {
    "while": "P4 has no while; use for (…), or a parser loop",
    "do": "P4 has no do; use for (…), or a parser loop",
    "elif": "write else if",
    "elseif": "write else if",
}
#: Statements that a parser state may not hold.
_NOT_IN_STATES: Final = frozenset(
    {"return", "exit", "switch", "for", "break", "continue", "transition"}
)


class StatementParser(ExpressionParser):
    """Statements of controls, actions, functions and parser states."""

    # --- blocks -----------------------------------------------------------------------------------

    def block(self, purpose: str = "") -> ast.Block:
        """Parse `{ … }` in a scope of its own."""
        annotations = self.annotations()
        return self._block(annotations, purpose, in_state=False)

    def _block(
        self, annotations: tuple[ast.Annotation, ...], purpose: str, *, in_state: bool
    ) -> ast.Block:
        start = self.expect("{", purpose)
        with self.nested(), self.scope():
            body = self.statements(in_state=in_state)
        if self.token.kind != "}":
            raise self.unexpected(f"expected '}}' to close the block opened at {start.span}")
        self.advance()
        return ast.Block(span=start.span, body=body, annotations=annotations)

    def statements(self, *, in_state: bool = False) -> tuple[ast.Stmt, ...]:
        """Parse statements and declarations up to `}` (or `transition`, in a parser state)."""
        out: list[ast.Stmt] = []
        while self.token.kind not in ("}", "end of file"):
            if in_state and self.token.kind == "transition":
                break
            out.append(self.statement_or_declaration(in_state=in_state))
        return tuple(out)

    def statement_or_declaration(self, *, in_state: bool = False) -> ast.Stmt:
        """Parse a statement, a variable, a constant or an instance."""
        annotations = self.annotations()
        kind = self.token.kind
        if kind == "{":
            return self._block(annotations, "", in_state=in_state)
        if kind == "for":
            return self._for()
        if kind == "const" or self.at_declaration():
            return self._declaration_statement(annotations)
        if annotations:
            raise self.unexpected(
                "expected a block or a declaration after the annotation",
                "no other statement can carry annotations",
            )
        return self._statement(in_state)

    def _body(self, in_state: bool) -> ast.Stmt:
        """The statement that an `if` or a `for` governs."""
        annotations = self.annotations()
        if self.token.kind == "{":
            return self._block(annotations, "", in_state=in_state)
        if self.at_declaration() or self.token.kind == "const":
            raise self.error(
                "a declaration cannot stand alone here", self.token.span, "put it in braces"
            )
        with self.nested():
            return self._statement(in_state)

    def _statement(self, in_state: bool) -> ast.Stmt:
        start = self.token
        kind = start.kind
        if in_state and kind in _NOT_IN_STATES:
            raise self.error(f"'{kind}' cannot stand here in a parser state", start.span)
        if kind == ";":
            return ast.Empty(span=self.advance().span)
        if kind == "if":
            return self._if(in_state)
        if kind == "return":
            return self._return()
        if kind in ("exit", "break", "continue"):
            return self._jump()
        if kind == "switch":
            return self._switch()
        if kind == "for":
            return self._for()
        out = self._assignment_or_call()
        self.expect(";", "to end the statement")
        return out

    # --- declarations -----------------------------------------------------------------------------

    def at_declaration(self) -> bool:
        """Whether a variable or an instance is declared here.

        `T.apply()` starts with a type and declares nothing; a name that is no type opens a
        declaration only when what follows on its line makes no other sense.
        """
        if not (self.at_type() or self.token.kind in NAME_KINDS):
            return False
        after = self.skip_type(0)
        if after is None:
            return self.at_type()
        if self.at_type():
            return self.peek(after).kind != "."
        following = self.peek(after)
        if following.kind == "(" and not self.is_declared(self.token.text):
            closed = self._skip_brackets(after)
            if closed is not None and self.peek(closed + 1).kind in (";", "="):
                following = self.peek(closed)
        return following.kind in NAME_KINDS and not following.first

    def _declaration_statement(self, annotations: tuple[ast.Annotation, ...]) -> ast.DeclStmt:
        start = self.token
        decl = (
            self.constant(annotations)
            if start.kind == "const"
            else self.variable_or_instance(annotations)
        )
        return ast.DeclStmt(span=start.span, decl=decl)

    def constant(self, annotations: tuple[ast.Annotation, ...]) -> ast.ConstDecl:
        """Parse `const type name = value;`."""
        self.expect("const")
        kind = self.type_ref()
        name, kind = self.declarator(kind, "the constant's name")
        self.expect("=", "and the constant's value")
        value = self.expression()
        self.expect(";", "to end the constant")
        self.declare_object(name.text)
        return ast.ConstDecl(
            span=name.span, name=name.text, annotations=annotations, type=kind, value=value
        )

    def variable_or_instance(
        self, annotations: tuple[ast.Annotation, ...]
    ) -> ast.VarDecl | ast.Instance:
        """Parse `type name = init;` or `Type(args) name;`."""
        kind = self.type_ref()
        if self.token.kind == "(":
            return self.instance(annotations, kind)
        out = self._variable(annotations, kind)
        self.expect(";", "to end the declaration")
        return out

    def _variable(self, annotations: tuple[ast.Annotation, ...], kind: ast.TypeRef) -> ast.VarDecl:
        name, kind = self.declarator(kind, "the variable's name")
        init = self.expression() if self.accept("=") else None
        self.declare_object(name.text)
        return ast.VarDecl(
            span=name.span, name=name.text, annotations=annotations, type=kind, init=init
        )

    def instance(self, annotations: tuple[ast.Annotation, ...], kind: ast.TypeRef) -> ast.Instance:
        """Parse what follows the type in `Type(args) name = { … };`."""
        args = self.arguments()
        name, kind = self.declarator(kind, "the instance's name")
        body: list[ast.Decl] = []
        if self.accept("="):
            self.expect("{", "and the instance's methods")
            with self.scope():
                while self.token.kind not in ("}", "end of file"):
                    body.append(self._instance_member())
            self.expect("}", "to close the instance's methods")
        self.expect(";", "to end the instance")
        self.declare_object(name.text)
        return ast.Instance(
            span=name.span,
            name=name.text,
            annotations=annotations,
            type=kind,
            args=args,
            body=tuple(body),
        )

    def _instance_member(self) -> ast.Decl:
        annotations = self.annotations()
        with self.nested(), self.types_may_follow() as pending:
            kind = self.type_ref()
        if self.token.kind == "(":
            self.settle(pending)
            return self.instance(annotations, kind)
        return self.function(annotations, kind, pending)

    def function(
        self,
        annotations: tuple[ast.Annotation, ...],
        result: ast.TypeRef,
        pending: list[Token],
    ) -> ast.FunctionDecl:
        """Parse a function from its name on; `pending` are type names in `result` to settle."""
        with self.scope():
            signature = self.signature(annotations, result, pending)
            body = self.block("to open the function's body")
        self.declare_object(signature.name)
        return ast.FunctionDecl(
            span=signature.span,
            name=signature.name,
            annotations=annotations,
            signature=signature,
            body=body,
        )

    def signature(
        self,
        annotations: tuple[ast.Annotation, ...],
        result: ast.TypeRef | None,
        pending: list[Token],
        *,
        abstract: bool = False,
    ) -> ast.FunctionSig:
        """Parse `name<T>(params)`, in a scope that the caller opened."""
        name = self.name("the function's name")
        type_params = self.type_parameters()
        self.settle(pending)
        params = self.parameters()
        return ast.FunctionSig(
            span=name.span,
            name=name.text,
            annotations=annotations,
            result=result,
            params=params,
            type_params=type_params,
            abstract=abstract,
        )

    # --- assignments and calls --------------------------------------------------------------------

    def _assignment_or_call(self) -> ast.Stmt:
        """Parse `target op= value` or a call, without its semicolon."""
        start = self.token
        if start.kind in ("++", "-", "+", "!", "~") or start.kind == "else":
            raise self.unexpected("expected a statement")
        habit = _NO_STATEMENTS.get(start.text, "")
        if habit and self.peek().kind in ("(", "{") and not self.is_declared(start.text):
            raise self.error(f"'{start.text}' is no statement of P4", start.span, habit)
        target = self.postfix()
        op = self._assignment_operator()
        if op is not None:
            value = self.expression()
            return ast.Assign(span=self.span_from(start), target=target, value=value, op=op)
        if isinstance(target, ast.Call):
            return ast.CallStmt(span=self.span_from(start), call=target)
        if self.token.kind in ("++", "-") and self.peek().kind in (self.token.kind, ";"):
            raise self.unexpected("expected '=' or a call", "write x = x + 1 to count up")
        if isinstance(target, ast.Name) and self.token.kind == ";":
            raise self.error(
                f"'{target.name}' alone is no statement", target.span, "a call needs ()"
            )
        raise self.unexpected("expected '=' or a call")

    def _assignment_operator(self) -> str | None:
        """Consume an assignment operator; the part before its `=`, or None where there is none."""
        if self.token.kind in _ASSIGNMENTS:
            return self.advance().kind[:-1]
        if self.at_shift(">="):
            self.advance()
            self.advance()
            return ">>"
        return None

    # --- control flow -----------------------------------------------------------------------------

    def _if(self, in_state: bool) -> ast.Stmt:
        """An `if` with its whole chain of `else if`, which does not count as nesting."""
        links: list[tuple[Token, ast.Expr, ast.Stmt]] = []
        other: ast.Stmt | None = None
        while True:
            start = self.expect("if")
            self.expect("(", "before the condition")
            cond = self.expression()
            if self.token.kind == "=":
                raise self.unexpected("expected ')'", "'=' assigns; '==' compares")
            self.expect(")", "to close the condition")
            links.append((start, cond, self._body(in_state)))
            if not self.accept("else"):
                break
            if self.token.kind != "if":
                other = self._body(in_state)
                break
        for start, cond, then in reversed(links):
            other = ast.If(span=start.span, cond=cond, then=then, other=other)
        assert other is not None
        return other

    def _return(self) -> ast.Return:
        start = self.advance()
        value = None if self.token.kind == ";" else self.expression()
        self.expect(";", "to end the statement")
        return ast.Return(span=start.span, value=value)

    def _jump(self) -> ast.Stmt:
        start = self.advance()
        self.expect(";", "to end the statement")
        if start.kind == "exit":
            return ast.Exit(span=start.span)
        if start.kind == "break":
            return ast.Break(span=start.span)
        return ast.Continue(span=start.span)

    def _switch(self) -> ast.Switch:
        start = self.advance()
        self.expect("(", "before the value to switch on")
        subject = self.expression()
        self.expect(")", "to close the value to switch on")
        self.expect("{", "to open the cases")
        cases: list[ast.SwitchCase] = []
        while self.token.kind not in ("}", "end of file"):
            cases.append(self._switch_case())
        self.expect("}", "to close the cases")
        return ast.Switch(span=start.span, subject=subject, cases=tuple(cases))

    def _switch_case(self) -> ast.SwitchCase:
        start = self.token
        if start.kind == "{":
            raise self.unexpected("expected a case's label")
        if start.kind in NAME_KINDS and start.text == "case":
            raise self.unexpected("expected a case's label", "P4 has no 'case': write label: { … }")
        label: ast.Expr
        if start.kind == "default":
            label = ast.Default(span=self.advance().span)
        else:
            label = self.expression()
        self.expect(":", "after the case's label")
        body = self.block() if self.token.kind in ("{", "@") else None
        return ast.SwitchCase(span=start.span, label=label, body=body)

    def _for(self) -> ast.Stmt:
        start = self.expect("for")
        self.expect("(", "after 'for'")
        with self.nested(), self.scope():
            iteration = self._for_in(start)
            if iteration is not None:
                return iteration
            init = self._for_list(";", declarations=True)
            self.expect(";", "after the loop's start")
            cond = self.expression()
            self.expect(";", "after the loop's condition")
            update = self._for_list(")", declarations=False)
            self.expect(")", "to close the loop's head")
            body = self._body(in_state=False)
            return ast.For(span=start.span, init=init, cond=cond, update=update, body=body)

    def _for_in(self, start: Token) -> ast.ForIn | None:
        """The rest of `for (type name in collection) body`; None where it is the other form."""
        ahead = self.skip_type(0)
        if ahead is not None and self.peek(ahead).kind == "in":
            raise self.unexpected("expected the loop variable's type", "for (bit<8> i in …)")
        if ahead is None or self.peek(ahead + 1).kind != "in":
            return None
        kind = self.type_ref()
        name = self.name("the loop variable's name")
        self.expect("in", "and what to go through")
        collection = self.simple_keyset()
        self.expect(")", "to close the loop's head")
        self.declare_object(name.text)
        body = self._body(in_state=False)
        return ast.ForIn(
            span=start.span, type=kind, name=name.text, collection=collection, body=body
        )

    def _for_list(self, end: str, *, declarations: bool) -> tuple[ast.Stmt, ...]:
        out: list[ast.Stmt] = []
        while self.token.kind != end:
            start = self.token
            annotations = self.annotations()
            if declarations and (annotations or self.at_declaration()):
                decl = self._variable(annotations, self.type_ref())
                out.append(ast.DeclStmt(span=start.span, decl=decl))
            else:
                out.append(self._assignment_or_call())
            if not self.accept(","):
                break
        return tuple(out)
