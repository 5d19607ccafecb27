"""Which member carries a packet: modes, slots, flowlets, and what is never chosen."""

from collections import Counter

import pytest
from p4src_kit import (
    BEST,
    DLB,
    ECMP,
    FABRIC_PORTS,
    GLB,
    GROUP,
    HASH,
    PROFILE,
    SPRAY,
    SPRAYING,
    Bench,
    entry,
    flow_hash,
    group,
    hashed_slot,
    ip4,
    ip6,
    lanes,
    mode,
    slots,
    vector,
)

BANKS = 32
WORST, DOWN = 9, 8


@pytest.fixture
def bench():
    return Bench()


def set_codes(bench, *codes):
    bench.register("remote_codes")[PROFILE * BANKS] = vector(*codes)


def set_bad(bench, *bad):
    bench.register("local_bad")[0] = vector(*bad)


def set_down(bench, *ports):
    bench.register("local_down")[0] = lanes(*ports)


def sprayed(bench, packets, frame=None):
    return [bench.out_port(frame or ip4()) for _ in range(packets)]


# --- ecmp -----------------------------------------------------------------------------------------


def test_ecmp_is_the_default_and_uses_all_slots(bench):
    flows = [ip4(sport=s) for s in range(1000, 1200)]
    ports = {hashed_slot(f): bench.out_port(f) for f in flows}
    assert ports == {slot: FABRIC_PORTS[slot % 4] for slot in ports}
    assert len(ports) > 55  # of 64


def test_ecmp_neither_knows_nor_avoids_what_is_down(bench):
    bench.insert(mode(ECMP))
    set_down(bench, *FABRIC_PORTS)
    set_codes(bench, DOWN, DOWN, DOWN, DOWN)
    for sport in range(1000, 1010):
        frame = ip4(sport=sport)
        assert bench.out_port(frame) == FABRIC_PORTS[hashed_slot(frame) % 4]


def test_two_tiers_split_flows_apart():
    """The flows of one share at a first switch fall into all shares at a second one."""
    seeds = (0x9E3779BA, 0x3C6EF373)  # of switches 1 and 2, as the controller gives them
    flows = [ip4(sport=s, src=f"10.0.9.{s % 250 + 1}") for s in range(3000)]
    together = [f for f in flows if flow_hash(f, seed=seeds[0]) >> 26 & 3 == 0]
    shares = Counter(flow_hash(f, seed=seeds[1]) >> 26 & 3 for f in together)
    assert len(together) > 600
    assert all(0.2 < n / len(together) < 0.3 for n in shares.values())
    # That the program hashes this way for any seed is test_ecmp_is_the_default_and_uses_all_slots's.


# --- spray ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("frame", [ip4(), ip6()], ids=["v4", "v6"])
def test_spray_takes_the_slots_in_turn(bench, frame):
    bench.insert(mode(SPRAYING))
    assert sprayed(bench, 130, frame) == [FABRIC_PORTS[i % 64 % 4] for i in range(130)]


def test_slots_may_be_unequal_shares(bench):
    bench.insert(mode(SPRAYING))
    bench.client.delete(slots(FABRIC_PORTS))
    bench.insert(slots((1, 2, 1, 3, 1, 2, 1, 4)))
    assert Counter(sprayed(bench, 64)) == {1: 32, 2: 16, 3: 8, 4: 8}


def test_each_group_has_a_turn_of_its_own(bench):
    bench.insert(mode(SPRAYING), mode(SPRAYING, 8), group(dst=21, index=8), slots((4, 3), 8))
    bench.insert(entry("routing_v4", "to_switch", {"prefix": "10.0.21.0/24"}, dst=21))
    frames = [ip4(), ip4("10.0.21.1")] * 4
    assert [bench.out_port(f) for f in frames] == [1, 4, 2, 3, 3, 4, 4, 3]


# --- what is never chosen -------------------------------------------------------------------------


def test_a_turn_passes_to_second_and_third_choice(bench):
    bench.insert(mode((SPRAY, 0, 0, 1, 0)))
    set_down(bench, 2)
    assert sprayed(bench, 8) == [1, 3, 3, 4, 1, 3, 3, 4]
    set_down(bench, 2, 3)
    assert sprayed(bench, 8) == [1, 4, 4, 4, 1, 4, 4, 4]


def test_beyond_the_third_choice_the_next_lane_follows(bench):
    bench.insert(mode((SPRAY, 0, 0, 1, 0)))
    bench.client.delete(slots(FABRIC_PORTS))
    bench.insert(slots(FABRIC_PORTS, choices=1))
    set_down(bench, 1, 3)
    # Not all to the lowest lane: 1 -> 2, 3 -> 4.
    assert sprayed(bench, 8) == [2, 2, 4, 4, 2, 2, 4, 4]
    set_down(bench, 3, 4)
    assert sprayed(bench, 8) == [1, 2, 1, 1, 1, 2, 1, 1]  # beyond the last lane: the first


def test_without_slots_the_lowest_fit_lane(bench):
    bench.client.delete(slots(FABRIC_PORTS))
    bench.insert(mode(GLB))
    set_down(bench, 1)
    assert sprayed(bench, 3) == [2, 2, 2]


@pytest.mark.parametrize("selection", [HASH, SPRAY, BEST])
def test_local_and_remote_down_are_avoided_in_every_mode(bench, selection):
    bench.insert(mode((selection, 0, 0, 1, 1)))
    set_down(bench, 1)
    set_codes(bench, 0, DOWN, 0, DOWN)
    assert {bench.out_port(ip4(sport=s)) for s in range(1000, 1020)} == {3}


def test_remote_down_is_avoided_whatever_the_bands(bench):
    bench.insert(mode(GLB))
    set_bad(bench, 7, 0, 7, 0)
    set_codes(bench, WORST, DOWN, WORST, DOWN)
    assert set(sprayed(bench, 20)) == {1, 3}


@pytest.mark.parametrize("of", [DLB, GLB, (HASH, 0, 0, 1, 1)])
def test_no_path_left_is_counted(bench, of):
    bench.insert(mode(of))
    set_down(bench, *FABRIC_PORTS)
    assert bench.put(ip4()) == []
    assert bench.put(ip6()) == []
    assert bench.count("no_path", GROUP) == 2
    set_down(bench)
    assert len(bench.put(ip4())) == 1


def test_all_remote_down_is_no_path(bench):
    bench.insert(mode(GLB))
    set_codes(bench, DOWN, DOWN, DOWN, DOWN)
    assert bench.put(ip4()) == []
    assert bench.count("no_path", GROUP) == 1


def test_a_destination_without_a_group_counts_in_group_0(bench):
    bench.client.delete(group(profile=PROFILE))
    assert bench.put(ip4()) == []
    assert bench.count("no_path", 0) == 1


def test_members_alone_are_used(bench):
    bench.modify(group((2, 4), profile=PROFILE))
    bench.insert(mode(GLB))
    assert set(sprayed(bench, 20)) == {2, 4}


# --- dlb and glb ----------------------------------------------------------------------------------


def test_dlb_leaves_out_what_is_worse_than_the_best_by_more_than_a_band(bench):
    bench.insert(mode(DLB))
    set_bad(bench, 3, 0, 2, 5)
    set_codes(bench, 0, DOWN, DOWN, DOWN)  # not its business
    assert set(sprayed(bench, 40)) == {2}


def test_dlb_shares_equal_bands_equally(bench):
    bench.insert(mode(DLB))
    set_bad(bench, 4, 2, 4, 2)
    assert sprayed(bench, 8) == [2, 2, 4, 4, 2, 2, 4, 4]


def test_one_band_below_the_best_is_as_good(bench):
    bench.insert(mode(DLB))
    set_bad(bench, 1, 0, 2, 0)
    # Port 3's turn passes to port 4.
    assert sprayed(bench, 8) == [1, 2, 4, 4] * 2


def test_glb_adds_the_remote_code(bench):
    bench.insert(mode(GLB))
    set_bad(bench, 0, 2, 5, 0)
    # bands 7, 5, 2, 7; codes -4, +0, +5, -3 -> 3, 5, 7, 4
    set_codes(bench, 0xC, 0, 5, 0xD)
    assert set(sprayed(bench, 40)) == {3}


def test_glb_clamps_the_sum(bench):
    bench.insert(mode(GLB))
    set_bad(bench, 0, 0, 7, 7)
    # 7+7, 7+0 -> both 7; 0-7, 0-1 -> both 0
    set_codes(bench, 7, 0, WORST, 0xF)
    assert sprayed(bench, 8) == [1, 2, 1, 1] * 2
    set_down(bench, 1, 2)
    assert set(sprayed(bench, 8)) == {3, 4}


def test_glb_uses_its_own_profile_only(bench):
    bench.insert(mode(GLB))
    bench.register("remote_codes")[(PROFILE + 1) * BANKS] = vector(DOWN, DOWN, DOWN, DOWN)
    bench.register("remote_codes")[PROFILE * BANKS + 1] = vector(DOWN, DOWN, DOWN, DOWN)
    assert sprayed(bench, 4) == [1, 2, 3, 4]


# --- flowlets -------------------------------------------------------------------------------------


@pytest.mark.parametrize("selection", [SPRAY, BEST])
def test_a_flowlet_stays_until_it_was_idle(bench, selection):
    bench.insert(mode((selection, 1, 50, 1, 1)))
    flow, other = ip4(sport=1000), ip4(sport=1001)
    bench.at(1000)
    assert [bench.out_port(flow), bench.out_port(other)] == [1, 2]
    for time_us in (1050, 1100, 1150):  # 50 us idle is not more than 50
        bench.at(time_us)
        assert bench.out_port(flow) == 1
    bench.at(1201)
    assert bench.out_port(flow) == 3
    assert bench.out_port(other) == 4


def test_a_flowlet_leaves_a_dead_member_at_once_but_not_a_bad_one(bench):
    bench.insert(mode((BEST, 1, 50, 1, 1)))
    bench.at(1000)
    assert bench.out_port(ip4()) == 1
    set_bad(bench, 7, 0, 0, 0)
    assert bench.out_port(ip4()) == 1
    set_codes(bench, DOWN)
    assert bench.out_port(ip4()) == 2  # the turn's next
    set_codes(bench, 0)
    assert bench.out_port(ip4()) == 2
    set_down(bench, 2)
    assert bench.out_port(ip4()) == 3


def test_flowlets_are_kept_in_the_middle_bits_of_the_hash(bench):
    bench.insert(mode((SPRAY, 1, 50, 0, 0)))
    bench.at(1000)
    bench.put(ip4())
    index = flow_hash(ip4()) >> 14 & 4095
    assert bench.register("flowlet_lane")[index] == lanes(1)
    assert bench.register("flowlet_time")[index] == 1000
