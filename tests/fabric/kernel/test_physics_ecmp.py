"""ECMP's collisions, from the hash of the P4 program as it runs: against independent uniform choices."""

from __future__ import annotations

import random
from functools import cache
from statistics import fmean, stdev

import numpy as np
from physics_kit import FRAME_OVERHEAD_BYTES, fabric, leaf_spine, simulate, with_flows

from sglb.fabric.kernel.simulation import NativeSimulation
from sglb.switch.core import model as m

#: Leaves, spines, hosts of a leaf.
SIZE = 8
HOSTS = SIZE * SIZE
#: Rotations by so many hosts leave no host on its leaf.
SHIFTS = range(SIZE, HOSTS - SIZE + 1)
PAYLOAD_BYTES = 9_000
ROUND_US = 20


@cache
def rounds() -> np.ndarray:
    """Flows on each link, by (rotation, up or down, leaf, spine): a packet a flow, a flow a host."""
    scenario = fabric(
        topology=leaf_spine(SIZE, SIZE, SIZE),
        workload={"incast": {"to": "h0", "fan_in": 1, "bytes": 1}},
        transport={"mtu_bytes": PAYLOAD_BYTES},
        policies=["ecmp"],
    )
    flows = [
        (n * ROUND_US * 1_000_000, i, (i + shift) % HOSTS, PAYLOAD_BYTES)
        for n, shift in enumerate(SHIFTS)
        for i in range(HOSTS)
    ]
    simulation = simulate(with_flows(scenario, flows), "ecmp")
    sent = [_sent(simulation)]
    for n in range(1, len(SHIFTS) + 1):
        at_ps = n * ROUND_US * 1_000_000 - 1
        simulation.clock.call_at(at_ps, lambda: sent.append(_sent(simulation)))
    simulation.run()
    sent.append(_sent(simulation))
    # Acknowledges and SyncMesh are less than a packet in a round.
    return np.diff(np.array(sent), axis=0) // (PAYLOAD_BYTES + FRAME_OVERHEAD_BYTES)


def _sent(simulation: NativeSimulation) -> np.ndarray:
    """Bytes sent, by (up or down, leaf, spine)."""
    memory, found = simulation._fabric.memory, np.zeros((2, SIZE, SIZE), dtype=np.int64)
    topology = simulation.scenario.topology
    places = {node.id: divmod(n, SIZE) for n, node in enumerate(topology.switches)}
    for node_id, (tier, own) in places.items():
        for number, link in topology.ports(node_id).items():
            if link.other(node_id) not in places:
                continue
            _, other = places[link.other(node_id)]
            port = memory.port(simulation._fabric.node_of[node_id], number)
            words = int(memory.world.w[m.PORTS_AT]) + port * m.PORT_WORDS
            found[(tier, other, own) if tier else (tier, own, other)] = memory.world.w[
                words + m.P_TX_BYTES
            ]
    return found


def independent(rng: random.Random) -> tuple[int, int]:
    """Most flows on an uplink, and on any link, when flows choose spines by dice."""
    shift = rng.choice(SHIFTS)
    up, down = np.zeros((2, SIZE, SIZE), dtype=np.int64)
    for i in range(HOSTS):
        spine = rng.randrange(SIZE)
        up[i // SIZE, spine] += 1
        down[(i + shift) % HOSTS // SIZE, spine] += 1
    return int(up.max()), int(max(up.max(), down.max()))


def test_every_flow_goes_up_and_down_once() -> None:
    assert (rounds().sum(axis=3) == SIZE).all()


def test_spines_are_chosen_alike_often_and_no_more_evenly_than_by_dice() -> None:
    # A leaf's 8 flows on 8 links: Pearson's sum has a mean of 7 and a variance of 2 x 7 x (1 - 1/8).
    for flows in (rounds()[:, 0], rounds()[:, 1]):
        leaves = flows.shape[0] * flows.shape[1]
        off = ((flows - 1.0) ** 2).sum() - 7 * leaves
        assert abs(off) < 3 * (leaves * 2 * 7 * (1 - 1 / SIZE)) ** 0.5
    # Over all rotations no leaf prefers a spine: 49 x 8 flows, 49 a link.
    total = rounds()[:, 0].sum(axis=0)
    off = ((total - 49.0) ** 2 / 49).sum() - 7 * SIZE
    assert abs(off) < 3 * (SIZE * 2 * 7) ** 0.5


def test_the_fullest_links_are_as_full_as_by_monte_carlo() -> None:
    rng = random.Random(1)
    up, either = zip(*(independent(rng) for _ in range(1_000)), strict=True)
    found = rounds()
    for truth, crowd in ((up, found[:, 0].max(axis=(1, 2))), (either, found.max(axis=(1, 2, 3)))):
        error = stdev(truth) / len(crowd) ** 0.5
        assert abs(crowd.mean() - fmean(truth)) < 3 * error
        assert error < 0.1  # of about 3.7 flows
