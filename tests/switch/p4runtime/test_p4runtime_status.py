"""Error details: one p4.v1.Error per update, in order, OK ones with nothing but their zero code."""

import pytest
from finsy.proto import p4r, rpc_status

from sglb.switch.p4runtime.status import Code, P4RuntimeError, batch_error, details_of


def test_batch_error_lists_every_update_in_order():
    full = P4RuntimeError(Code.RESOURCE_EXHAUSTED, "table t is full")
    there = P4RuntimeError(Code.ALREADY_EXISTS, "entry exists")
    error = batch_error("updates", [full, None, there])
    assert error.code is Code.UNKNOWN
    assert [(d.canonical_code, d.message) for d in error.details] == [
        (8, "table t is full"),
        (0, ""),
        (6, "entry exists"),
    ]
    assert "2 of 3 updates failed" in str(error)
    assert "[2] ALREADY_EXISTS: entry exists" in str(error)


def test_status_carries_the_details_as_any():
    error = batch_error("updates", [None, P4RuntimeError(Code.NOT_FOUND, "gone")])
    status = rpc_status.Status.FromString(error.to_status().SerializeToString())
    assert (status.code, status.message) == (2, error.message)
    assert [d.type_url for d in status.details] == ["type.googleapis.com/p4.v1.Error"] * 2
    assert details_of(status) == [p4r.Error(), p4r.Error(canonical_code=5, message="gone")]


def test_foreign_details_are_refused():
    status = rpc_status.Status()
    status.details.add().Pack(p4r.WriteRequest())
    with pytest.raises(ValueError, match="WriteRequest"):
        details_of(status)
