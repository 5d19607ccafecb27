"""`run` on small fabrics: figures by hand, the JSON, worker processes, other people's programs."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import own_control
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglb.fabric import scenario as scenarios
from sglb.fabric.advance import Advance
from sglb.fabric.bounds import BoundError, BoundViolation
from sglb.fabric.control import ControlPlaneNotFoundError
from sglb.fabric.packet_trace import TraceRequest, TraceRequestError
from sglb.fabric.policy_job import PolicyJob
from sglb.fabric.report import RunReport
from sglb.fabric.run import UnknownPolicyError, make_jobs, run
from sglb.fabric.scenario import Scenario
from sglb.fabric.workers import WorkerError
from sglb.p4 import CompiledProgram, P4Errors
from sglb.p4 import compile as compile_p4
from sglb.programs import glb

ROUTER = Path(__file__).parents[1] / "programs" / "router.p4"


@cache
def program() -> CompiledProgram:
    return compile_p4(glb())


def fabric(**keys: Any) -> Scenario:
    """Two leaves, two spines, a host a leaf at 100 Gbit/s; one packet of 1000 bytes from h0 to h1."""
    return scenarios.from_dict(
        {
            "name": "small",
            "topology": {"leaf_spine": {"leaves": 2, "spines": 2, "hosts_per_leaf": 1}},
            "workload": {"flows": [{"src": "h0", "dst": "h1", "bytes": 1_000}]},
            "policies": ["spray", "glb"],
            **keys,
        }
    )


def one_switch(**keys: Any) -> Scenario:
    """Two hosts at 100 Gbit/s on one switch; one packet of 1000 bytes from a to b."""
    links = [{"between": [host, "s"]} for host in ("a", "b")]
    return fabric(
        topology={"explicit": {"switches": ["s"], "hosts": ["a", "b"], "links": links}},
        workload={"flows": [{"src": "a", "dst": "b", "bytes": 1_000}]},
        **keys,
    )


@cache
def plain() -> RunReport:
    return run(fabric(), program=program(), jobs=1)


# --- figures --------------------------------------------------------------------------------------

# Ethernet 14, IPv4 20, UDP 8, BTH 12, payload 1000, ICRC 4, on the wire FCS, preamble and gap 24.
WIRE_NS = (14 + 20 + 8 + 12 + 1_000 + 4 + 24) * 8 / 100


def test_one_packet_takes_four_links_and_three_pipelines() -> None:
    found = plain().policies["spray"]
    assert found.completion_us == (4 * (WIRE_NS + 500) + 3 * 1_000) / 1_000
    assert found.completion_us == 5.34624
    assert (found.completed, found.lost_packets, found.recovery) == (True, 0, None)
    assert (found.flows.all, found.flows.completed, found.transport.data_sent) == (1, 1, 1)
    # The bound knows the same way, but for the gap after the frame (12 bytes, on each link).
    assert 5.34624 - 4 * 12 * 8 / 100_000 <= found.lower_bound_us <= 5.34624
    assert found.ratio == found.completion_us / found.lower_bound_us


def test_a_queue_of_one_packet_is_told_with_its_place() -> None:
    found = plain().policies["spray"]
    assert found.max_queue_bytes == 1_058  # the packet without FCS, preamble and gap
    assert found.max_queue_at in ("leaf0 to spine0", "leaf0 to spine1")


def test_a_run_that_is_given_up_says_so() -> None:
    found = run(fabric(stop_us=5.0), policies=["spray"], program=program()).policies["spray"]
    assert (found.completed, found.completion_us, found.ratio) == (False, None, None)
    assert (found.flows.all, found.flows.completed, found.end_us) == (1, 0, 5.0)


def test_a_cut_gives_a_recovery_and_its_parts_add_up() -> None:
    flows = [{"src": "h0", "dst": "h1", "bytes": 400_000}]
    cut = [{"at_us": 10, "down": "leaf1-spine0"}]
    report = run(fabric(workload={"flows": flows}, faults=cut, policies=["glb"]), program=program())
    found = report.policies["glb"]
    assert found.recovery is not None
    (of_cut,) = found.recoveries
    assert (of_cut.fault, of_cut.cut_us, of_cut.repaired_us) == ("leaf1-spine0", 10.0, None)
    split = found.recovery
    assert split == of_cut.overall
    parts = (split.detection_us, split.notification_us, split.reaction_us)
    assert split.total_us == pytest.approx(sum(parts), abs=1e-9)
    assert split.detection_us == 10.0  # the default port-down detection
    assert found.lost_packets > 0


def test_a_result_below_the_bound_is_refused() -> None:
    scenario = fabric()
    job = _job(scenario, "spray")
    impossible = replace(job.bound.binding, time_ps=10_000_000)
    with pytest.raises(BoundViolation, match="below the lower bound"):
        replace(job, bound=replace(job.bound, bounds=(impossible,))).run()


def _job(scenario: Scenario, policy: str) -> PolicyJob:
    (job,) = make_jobs(scenario, [policy], program())
    return job


# --- JSON -----------------------------------------------------------------------------------------


def test_the_json_has_what_it_promises() -> None:
    data = json.loads(plain().to_json())
    for policy in ("spray", "glb"):
        found = data["policies"][policy]
        for key in ("completion_us", "lower_bound_us", "ratio", "lost_packets", "max_queue_bytes"):
            assert isinstance(found[key], int | float), key
        assert found["recovery"] is None
        for key in ("p50", "p90", "p99"):
            assert found["flows"]["fct_us"][key] == found["completion_us"]
        assert {"reordered", "ecn_marked", "resent"} <= found["transport"].keys()
        assert found["losses"]["by_reason"] == {}
        assert found["control"]["table_updates"] > 0
    scenario = data["scenario"]
    assert scenario["seed"] == 1
    assert scenario["transport"]["rto_us"] == 200.0  # a default
    assert scenario["workload"]["flows"][0]["src"] == "h0"
    assert {"sglb", "python", "program"} <= data["versions"].keys()
    assert data["versions"]["program"] == program().digest


def test_the_scenario_in_the_json_runs_again_to_the_same_bytes() -> None:
    data = json.loads(plain().to_json())
    assert run(scenarios.from_dict(data["scenario"]), program=program(), jobs=1) == plain()


def test_the_json_can_be_read_back() -> None:
    traced = run(fabric(), program=program(), policies=["spray"], trace=TraceRequest())
    for report in (plain(), traced):
        again = RunReport.from_json(report.to_json())
        assert again.to_json() == report.to_json()
    again = RunReport.from_json(plain().to_json())
    assert again == plain()
    assert list(again.policies) == ["spray", "glb"]
    for text in (
        "",
        "{}",
        "[]",
        plain().to_json().replace('"completed": true', '"completed": "x"'),
    ):
        with pytest.raises(ValueError):  # noqa: PT011 - pydantic's own text
            RunReport.from_json(text)


@given(st.data())
def test_any_text_is_a_report_or_a_value_error(data: st.DataObject) -> None:
    text = plain().to_json()
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 200)))
    junk = data.draw(st.text('{}[]",:0123456789.eE-ntfaul', max_size=6))
    with contextlib.suppress(ValueError):
        assert RunReport.from_json(text[:start] + junk + text[end:]).to_json()


def test_two_processes_give_the_same_bytes_and_tell_their_progress() -> None:
    told: list[tuple[str, Advance]] = []
    report = run(fabric(), program=program(), jobs=2, progress=lambda *news: told.append(news))
    assert report.to_json() == plain().to_json()
    assert list(report.policies) == ["spray", "glb"]
    assert {name for name, advance in told if not advance.arrived} == {"spray", "glb"}
    assert all(news.total == 1 and 0 <= news.arrived <= 1 for _, news in told)


def test_another_seed_gives_other_bytes() -> None:
    other = run(fabric(seed=2), program=program(), jobs=1)
    assert other.to_json() != plain().to_json()


# --- what to run ----------------------------------------------------------------------------------


def test_only_the_policies_asked_for_run_each_once() -> None:
    report = run(fabric(), policies=["glb", "glb"], program=program())
    assert list(report.policies) == ["glb"]
    assert report.policies["glb"] == plain().policies["glb"]


def test_a_file_and_the_shipped_program_are_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(json.dumps(json.loads(plain().to_json())["scenario"]))
    assert run(file, jobs=1) == plain()


def test_mistakes_are_told_before_anything_runs() -> None:
    with pytest.raises(UnknownPolicyError, match=r"no policy 'gbl', .* did you mean glb"):
        run(fabric(), policies=["gbl"], program=program())
    with pytest.raises(ControlPlaneNotFoundError, match="no control plane named 'mine'"):
        run(fabric(), program=program(), control_plane="mine")
    with pytest.raises(P4Errors, match=r"nowhere\.p4:1:1: error: cannot read the program"):
        run(fabric(), program="nowhere.p4")
    with pytest.raises(TraceRequestError, match="no host 'h7'"):
        run(fabric(), program=program(), trace=TraceRequest("h0", "h7"))
    with pytest.raises(BoundError, match="can never complete"):
        run(fabric(faults=[{"at_us": 1, "down": "h1-leaf1"}]), program=program())


def test_a_users_own_program_and_control_plane_forward() -> None:
    report = run(
        one_switch(), program=ROUTER, control_plane=own_control.StaticRoutes, policies=["spray"]
    )
    found = report.policies["spray"]
    # Two links and one pipeline.
    assert found.completion_us == pytest.approx((2 * (WIRE_NS + 500) + 1_000) / 1_000, abs=1e-9)
    assert found.control == {"entries": 4}


# --- processes ------------------------------------------------------------------------------------


def _own(control: Any, jobs: int) -> RunReport:
    return run(one_switch(), program=ROUTER, control_plane=control, jobs=jobs)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_control_plane_that_fails_is_told_with_its_policy(jobs: int) -> None:
    with pytest.raises(
        WorkerError, match=r"^policy (spray|glb): the wanted table is not there$"
    ) as info:
        _own(own_control.Failing, jobs)
    assert "LookupError" in info.value.details
    assert "own_control.py" in info.value.details


def test_a_worker_that_dies_is_told() -> None:
    with pytest.raises(WorkerError, match=r"its process ended without a result, exit status 7"):
        _own(own_control.Dying, 2)


def test_what_a_control_plane_prints_does_not_disturb_the_result() -> None:
    expected = _own(own_control.StaticRoutes, 1)
    assert _own(own_control.Talking, 2).policies == expected.policies


def test_a_control_plane_that_cannot_travel_is_told() -> None:
    def local(view: Any) -> Any:
        return own_control.StaticRoutes(view)

    with pytest.raises(WorkerError, match=r"put the control plane into a module .* or use jobs=1"):
        _own(local, 2)
    assert _own(local, 1).completed
