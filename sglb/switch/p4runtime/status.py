"""Errors of the P4Runtime service: canonical codes, and one `p4.v1.Error` per update of a batch.

P4Runtime specification 1.5, "Error Reporting Messages".
"""

from __future__ import annotations

from collections.abc import Sequence

from finsy import GRPCStatusCode as Code
from finsy.proto import p4r, rpc_status

__all__ = ["Code", "P4RuntimeError", "batch_error", "details_of"]


class P4RuntimeError(Exception):
    """A request, or one update of it, that the service refuses.

    `details` holds one `p4.v1.Error` per update (or read request) in order, and is empty for an
    error of the RPC as a whole.
    """

    def __init__(self, code: Code, message: str, details: Sequence[p4r.Error] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = tuple(details)

    def __str__(self) -> str:
        lines = [f"{self.code.name}: {self.message}"]
        for i, error in enumerate(self.details):
            if error.canonical_code:
                lines.append(f"  [{i}] {Code(error.canonical_code).name}: {error.message}")
        return "\n".join(lines)

    def to_error(self) -> p4r.Error:
        """The error as the entry of one update in a batch."""
        return p4r.Error(canonical_code=self.code, message=self.message)

    def to_status(self) -> rpc_status.Status:
        """The `google.rpc.Status` that travels in `grpc-status-details-bin`."""
        status = rpc_status.Status(code=self.code, message=self.message)
        for error in self.details:
            status.details.add().Pack(error)
        return status


def batch_error(what: str, errors: Sequence[P4RuntimeError | None]) -> P4RuntimeError:
    """The UNKNOWN error of a batch of which some elements failed; None stands for success."""
    failed = [(i, e) for i, e in enumerate(errors) if e is not None]
    index, first = failed[0]
    message = f"{len(failed)} of {len(errors)} {what} failed; first [{index}]: {first.message}"
    details = [p4r.Error() if e is None else e.to_error() for e in errors]
    return P4RuntimeError(Code.UNKNOWN, message, details)


def details_of(status: rpc_status.Status) -> list[p4r.Error]:
    """The per-update errors in a `google.rpc.Status`; ValueError for other contents."""
    errors = []
    for packed in status.details:
        error = p4r.Error()
        if not packed.Unpack(error):
            raise ValueError(f"status detail is a {packed.type_url!r}, expected p4.v1.Error")
        errors.append(error)
    return errors
