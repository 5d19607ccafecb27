"""The type checker: names, types, compile-time values and the language's rules (specification 1.2.5).

`check` walks the syntax tree once, in source order, since P4 has no forward references but to parser
states. What it finds stands in the side tables of `Checked`. Limits of BMv2 are not applied here.
"""

from __future__ import annotations

from sglb.p4 import (
    ast,
    check_decls,
    check_instances,
    check_methods,
    check_ops,
    check_parsers,
    check_refs,
    check_stmts,
    check_tables,
    check_types,
    check_unset,
)
from sglb.p4.checked import Checked
from sglb.p4.scope import Env
from sglb.p4.sourcemap import SourceMap

#: Modules whose rules must be registered before anything is checked.
_RULES = (
    check_decls,
    check_instances,
    check_methods,
    check_ops,
    check_parsers,
    check_refs,
    check_stmts,
    check_tables,
    check_types,
)


def check(program: ast.SourceProgram, sources: SourceMap) -> Checked:
    """Check a parsed program.

    Warnings go to `sources`. Raises P4Errors with every independent error (at most 20), each with its
    place, source line and, where there is something to advise, a hint.
    """
    env = Env(program, sources)

    def run() -> None:
        for d in program.decls:
            env.decl(d)

    env.finish(run)
    check_unset.warn_unset(env)
    env.checked.errors = tuple(env.error_index)
    return env.checked
