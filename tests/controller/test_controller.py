from pathlib import Path

import pytest
from controller_kit import Bench, program, tiny
from finsy import Action, Match, P4CloneSessionEntry, P4MulticastGroupEntry, P4TableEntry

import sglb.p4
from controller.controller import ControllerError
from controller.plan import T_DESTINATIONS, T_LANES, T_SENDER, T_SLOTS, T_WATERMARKS, Target
from sglb.switch.p4runtime.client import InProcessClient
from sglb.switch.p4runtime.service import P4RuntimeService
from sglb.syncmesh.dataplane import FABRIC_GROUP, NOTIFY_GROUP, NOTIFY_SESSION, SLOTS, Lane

SET_GROUP = "FabricIngress.balance.set_group"
LANE_0, LANE_1 = Lane(0, 0).bit, Lane(0, 1).bit


def members(bench: Bench, switch: str, destination: str) -> int | None:
    """The set of lanes that a switch's `destinations` has for a destination."""
    wanted = P4TableEntry(T_DESTINATIONS, match=Match(dst=bench.id(destination)))
    found = bench.clients[bench.id(switch)].read(wanted)
    return found[0].action.args["members"] if found else None


def test_install_fills_an_empty_switch_and_then_there_is_nothing_to_do() -> None:
    bench = Bench()
    repairs = bench.controller.reconcile_all()
    assert set(repairs) == {1, 2, 3, 4}
    leaf = repairs[1]
    assert leaf.switch == "leaf0"
    assert leaf.deleted == ()
    # Ports 2 and 3 lead to the spines: lanes 0 and 1 of bank 0.
    assert members(bench, "leaf0", "leaf1") == LANE_0 | LANE_1
    assert "multicast group 1 -> ports 2, 3" in leaf.inserted
    assert len([text for text in leaf.inserted if text.startswith("slots ")]) == SLOTS
    assert len([text for text in leaf.modified if "default" in text]) == 2  # switch_info, sender
    assert bench.controller.update(bench.healthy) == {}
    assert all(r.updates == 0 for r in bench.controller.reconcile_all().values())


def test_each_class_has_its_own_watermarks() -> None:
    mine = {"class": 5, "ecn": {"kmin_bytes": 160, "kmax_bytes": 320, "pmax": 0.5}}
    all_others = {"kmin_bytes": 800, "kmax_bytes": 1_600, "pmax": 1.0}
    switch = {"ecn": all_others, "buffer": {"classes": [mine]}}
    bench = Bench(tiny(engine="native", switch=switch))
    bench.controller.reconcile_all()
    unit = Target().depth_unit_bytes
    for number, kmin, kmax in ((5, 160, 320), (4, 800, 1_600)):
        wanted = P4TableEntry(T_WATERMARKS, match=Match(**{"port": 2, "class": number}))
        (entry,) = bench.clients[bench.id("leaf0")].read(wanted)
        told = [entry.action.args[name] for name in ("kmin", "kmax")]
        assert told == [kmin // unit, kmax // unit]


def test_a_cut_changes_only_what_hangs_on_the_link_and_its_return_undoes_it() -> None:
    bench = Bench()
    bench.controller.reconcile_all()
    changed = bench.controller.update(bench.without("leaf0-spine0"))
    # leaf0 and leaf1 lose a member: the destination changes, and 64 slots go, which the other needs
    # none of. spine0 loses its path to leaf0: mode and destination. spine1 is not concerned.
    assert changed == {bench.id("leaf0"): 65, bench.id("leaf1"): 65, bench.id("spine0"): 2}
    assert members(bench, "leaf0", "leaf1") == LANE_1
    assert members(bench, "leaf1", "leaf0") == LANE_1
    assert members(bench, "spine0", "leaf0") is None
    assert members(bench, "spine0", "leaf1") == LANE_1
    assert bench.controller.update(bench.healthy) == changed
    assert members(bench, "leaf1", "leaf0") == LANE_0 | LANE_1


def test_a_restarted_controller_repairs_exactly_the_difference() -> None:
    bench = Bench()
    bench.controller.reconcile_all()
    client = bench.clients[bench.id("leaf0")]
    slot = P4TableEntry(T_SLOTS, match=Match(group=1, slot=5))
    [kept] = client.read(slot)
    [killed] = client.read(P4TableEntry(T_LANES, match=Match(bank=0, lane=LANE_1)))
    client.delete(killed)
    client.modify(
        P4TableEntry(
            T_SLOTS,
            match=Match(group=1, slot=5),
            action=Action("FabricIngress.balance.set_slot", one=LANE_1, two=0, three=0),
        )
    )
    client.insert(
        [
            P4TableEntry(
                T_DESTINATIONS,
                match=Match(dst=77),
                action=Action(SET_GROUP, index=9, of_bank=0, members=LANE_0, with_profile=0),
            ),
            P4MulticastGroupEntry(40, replicas=[2]),
            P4CloneSessionEntry(41, replicas=[3]),
        ]
    )
    client.modify(
        P4TableEntry(
            T_SENDER,
            action=Action("FabricEgress.set_switch", node_id=99, incarnation=1),
            is_default_action=True,
        )
    )

    fresh = bench.new_controller()
    repair = fresh.reconcile(bench.id("leaf0"))
    assert [t.partition(" -> ")[0] for t in repair.inserted] == [
        f"lanes [bank=0x0 lane={LANE_1:#x}]"
    ]
    assert [t.partition(" -> ")[0] for t in repair.modified] == [
        "sender [default]",
        "slots [group=0x1 slot=0x5]",
    ]
    assert [t.partition(" -> ")[0] for t in repair.deleted] == [
        "multicast group 40",
        "clone session 41",
        "destinations [dst=0x4d]",
    ]
    assert client.read(slot) == [kept]
    assert bench.new_controller().reconcile(bench.id("leaf0")).updates == 0
    assert all(r.updates == 0 for r in fresh.reconcile_all().values())


def test_a_default_that_nobody_asked_for_goes_back_to_the_programs_own() -> None:
    bench = Bench()
    bench.controller.reconcile_all()
    client = bench.clients[1]
    ask = P4TableEntry("FabricIngress.balance.modes", is_default_action=True)
    [initial] = client.read(ask)
    mode = Action(
        "FabricIngress.balance.set_mode",
        selection=2,
        flowlets=0,
        idle_us=5,
        local_liveness=1,
        remote_state=1,
    )
    client.modify(P4TableEntry("FabricIngress.balance.modes", action=mode, is_default_action=True))
    repair = bench.new_controller().reconcile(1)
    assert repair.modified == ("modes [default] -> its initial action",)
    assert client.read(ask) == [initial]


def test_a_switch_that_restarted_is_left_alone_until_it_is_filled() -> None:
    bench = Bench()
    bench.controller.reconcile_all()
    leaf0 = bench.id("leaf0")
    bench.switches[leaf0].load(program())
    bench.controller.restarted(leaf0, incarnation=2)
    assert leaf0 not in bench.controller.update(bench.without("leaf0-spine0"))
    assert bench.clients[leaf0].read(P4TableEntry(T_LANES)) == []
    bench.controller.reconcile(leaf0)
    assert members(bench, "leaf0", "leaf1") == LANE_1
    [sender] = bench.clients[leaf0].read(P4TableEntry(T_SENDER, is_default_action=True))
    assert sender.action.args == {"node_id": leaf0, "incarnation": 2}
    assert leaf0 in bench.controller.update(bench.healthy)


def test_what_the_agents_own_is_left_alone() -> None:
    bench = Bench()
    theirs = [
        P4MulticastGroupEntry(NOTIFY_GROUP, replicas=[2, 3]),
        P4CloneSessionEntry(NOTIFY_SESSION, replicas=[2, 3, 510], class_of_service=7),
        P4TableEntry(
            "FabricIngress.ports.ports",
            match=Match(port=2),
            action=Action(
                "FabricIngress.ports.set_fabric",
                neighbour=3,
                incarnation=1,
                bank=0,
                lane_shift=0,
                subject=0,
            ),
        ),
    ]
    client = bench.clients[1]
    client.insert(theirs)
    assert bench.controller.reconcile(1).deleted == ()
    assert client.read(P4MulticastGroupEntry(NOTIFY_GROUP))[0].replicas == (2, 3)
    assert len(client.read(P4CloneSessionEntry(NOTIFY_SESSION))) == 1
    assert len(client.read(P4TableEntry("FabricIngress.ports.ports"))) == 1
    assert len(client.read(P4MulticastGroupEntry(FABRIC_GROUP))) == 1


def test_a_refused_write_names_switch_table_and_entry_and_is_repaired_later() -> None:
    bench = Bench()
    bench.controller.reconcile_all()
    client = bench.clients[bench.id("leaf0")]
    [slot] = client.read(P4TableEntry(T_SLOTS, match=Match(group=1, slot=0)))
    bench.controller.update(bench.without("leaf0-spine0"))
    client.insert(slot)  # behind the controller's back, which is about to
    with pytest.raises(ControllerError) as failure:
        bench.controller.update(bench.healthy)
    text = str(failure.value)
    assert "switch leaf0: after 0 of 65 updates" in text
    assert "FabricIngress.balance.slots" in text
    assert "ALREADY_EXISTS" in text
    # The other switches were served, and the next attempt reads back first.
    assert members(bench, "leaf1", "leaf0") == LANE_0 | LANE_1
    assert bench.controller.update(bench.healthy) == {bench.id("leaf0"): 1}
    assert members(bench, "leaf0", "leaf1") == LANE_0 | LANE_1


def test_another_program_is_refused_by_name() -> None:
    bench = Bench()
    other = sglb.p4.compile(Path(__file__).parents[1] / "oracle/20-lpm/program.p4")
    bench.switches[1].load(other)
    bench.clients[1] = InProcessClient(P4RuntimeService(bench.switches[1], bench.clock))
    with pytest.raises(
        ControllerError, match=r"switch leaf0: its program has no table FabricIngress\.ports"
    ):
        bench.new_controller()
