"""P4_16 for the v1model architecture: source -> typed IR -> P4Info, and the reference interpreter."""

from sglb.p4.compiler import CompiledProgram, compile  # noqa: A004 - the documented name
from sglb.p4.source import P4Error, P4Errors, Span

__all__ = ["CompiledProgram", "P4Error", "P4Errors", "Span", "compile"]
