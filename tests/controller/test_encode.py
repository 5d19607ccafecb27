"""Entities of a plan as the one encoder and finsy itself give them; what parts of a plan follow from."""

from __future__ import annotations

import random

import pytest
from controller_kit import Bench, program
from finsy import Action, Match, P4Schema, P4TableEntry
from finsy.proto import p4r

from controller.agents import allocation_of
from controller.diff import Holdings
from controller.encode import Encoder
from controller.layout import FabricLayout
from controller.paths import LinkState
from controller.plan import T_LANES, T_SLOTS, PlanInputs, plan_parts, plan_switch
from sglb.fabric import scenario

FABRICS = [
    {"leaf_spine": {"leaves": 3, "spines": 2, "hosts_per_leaf": 1, "links_per_pair": 2}},
    {"clos3": {"k": 4}},
]


def bench(topology: dict[str, object]) -> Bench:
    flow = {"src": "h0", "dst": "h1", "bytes": 64}
    return Bench(scenario.from_dict({"topology": topology, "workload": {"flows": [flow]}}))


def inputs_of(made: Bench, policy: str = "glb") -> PlanInputs:
    fabric = FabricLayout(made.topology)
    profiles = {i: allocation_of(fabric, i, 64) for i in made.switches}
    return PlanInputs(fabric, made.scenario.model, policy, made.healthy, profiles)  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", ["ecmp", "glb"])
@pytest.mark.parametrize("topology", FABRICS, ids=["leaf_spine", "clos3"])
def test_the_encoder_says_what_finsy_says(topology: dict[str, object], policy: str) -> None:
    made = bench(topology)
    schema = P4Schema(program().p4info)
    encoder = Encoder(schema)  # one for all switches, as the controller has it
    for switch_id in made.switches:
        plan = plan_switch(inputs_of(made, policy), switch_id)
        finsys = Holdings(entity.encode(schema) for entity in plan)
        assert dict(encoder.holdings(plan).by_identity) == dict(finsys.by_identity)
        assert len(finsys) == len(plan)  # none twice


def test_what_an_entry_has_beside_its_action_is_kept() -> None:
    schema = P4Schema(program().p4info)
    action = Action("FabricIngress.balance.set_slot", one=1, two=0, three=0)
    entry = P4TableEntry(
        T_SLOTS, match=Match(group=1, slot=0), action=action, metadata=b"x", controller_metadata=7
    )
    [content] = Encoder(schema).holdings([entry]).by_identity.values()
    found = p4r.Entity.FromString(content)
    assert (found.table_entry.metadata, found.table_entry.controller_metadata) == (b"x", 7)


@pytest.mark.parametrize(
    ("table", "match"),
    [("nowhere", {"bank": 0}), (T_LANES, {"nothing": 0}), (T_LANES, {"bank": 99})],
)
def test_what_the_program_does_not_have_is_refused(table: str, match: dict[str, int]) -> None:
    action = Action("FabricIngress.balance.to_port", port=1, src_mac=0, dst_mac=0)
    entry = P4TableEntry(table, match=Match(match), action=action)
    with pytest.raises(ValueError, match=r"nowhere|nothing|99|5 bits|bank"):
        Encoder(P4Schema(program().p4info)).holdings([entry])


def random_states(made: Bench, count: int) -> list[LinkState]:
    rng = random.Random(7)
    links = [link.id for link in made.topology.links]
    found = []
    for _ in range(count):
        dead = frozenset(rng.sample(links, rng.randrange(3)))
        rates = dict(made.healthy.rate_bps)
        for link_id in rng.sample(links, rng.randrange(3)):
            rates[link_id] //= rng.choice((2, 4))
        found.append(LinkState(rates).without(dead))
    return found


@pytest.mark.parametrize("topology", FABRICS, ids=["leaf_spine", "clos3"])
def test_a_part_with_the_same_basis_has_the_same_entities(topology: dict[str, object]) -> None:
    made = bench(topology)
    schema = P4Schema(program().p4info)
    encoder, inputs = Encoder(schema), inputs_of(made)
    known: dict[object, dict[object, Holdings]] = {}
    shared = 0
    for number, state in enumerate(random_states(made, 6)):
        now = PlanInputs(
            inputs.fabric,
            inputs.model,
            inputs.policy,
            state,
            inputs.profiles,
            incarnations={1: 1 + number % 2},
        )
        for switch_id in (1, max(made.switches)):
            for part in plan_parts(now, switch_id):
                found = encoder.holdings(part.entities())
                before = known.setdefault((switch_id, part.key), {})
                if part.basis in before:
                    shared += 1
                    assert dict(before[part.basis].by_identity) == dict(found.by_identity)
                before[part.basis] = found
    assert shared > 20


@pytest.mark.parametrize("topology", FABRICS, ids=["leaf_spine", "clos3"])
def test_common_parts_are_the_same_on_all_switches(topology: dict[str, object]) -> None:
    made = bench(topology)
    encoder, inputs = Encoder(P4Schema(program().p4info)), inputs_of(made)
    known: dict[object, tuple[int, Holdings]] = {}
    shared = 0
    for switch_id in made.switches:
        for part in plan_parts(inputs, switch_id):
            if part.common:
                found = encoder.holdings(part.entities())
                first, same = known.setdefault((part.key, part.basis), (switch_id, found))
                shared += first != switch_id
                assert dict(found.by_identity) == dict(same.by_identity)
                kept = encoder.part(part)
                assert encoder.part(part) is kept
    assert shared > 10


def test_updates_one_after_the_other_leave_what_a_new_controller_would_write() -> None:
    made = bench(FABRICS[0])
    made.controller.reconcile_all()
    for state in random_states(made, 6):
        made.controller.update(state)
        assert made.controller.update(state) == {}
        again = made.controller.reconcile_all()
        assert {s: r.updates for s, r in again.items() if r.updates} == {}
