from collections.abc import Callable
from typing import Any

from finsy import P4PacketIn

from controller.probes import Prober
from sglb.fabric import generators
from sglb.fabric.topology import LinkSpec
from sglb.switch.clock import Handle, VirtualClock
from sglb.syncmesh import messages
from sglb.syncmesh.dataplane import REASON_AGENT, REASON_PROBE

SPEC = LinkSpec(100, 0)
DETECTION, FLIGHT = 300, 1  # so a probe every 100


class Bench:
    """One leaf (id 1, spines on ports 2 and 3), two spines (2, 3); probes fly unless a port is deaf."""

    def __init__(self, detection_ps: int = DETECTION, clock: VirtualClock | None = None) -> None:
        self.clock = clock or VirtualClock()
        self.topology = generators.leaf_spine(1, 2, 1, SPEC, SPEC, 1)
        self.callbacks: dict[int, Callable[[P4PacketIn], None]] = {}
        self.deaf: set[tuple[int, int]] = set()
        self.reason = REASON_PROBE
        self.sent: list[tuple[int, int, int, bytes]] = []
        self.told: list[tuple[int, int, int, bool]] = []
        clients = {i: Client(self, i) for i in (1, 2, 3)}
        self.prober = Prober(self.topology, self.clock, clients, detection_ps, self.tell)
        self.prober.start()

    def tell(self, switch: int, port: int, hears: bool) -> None:
        self.told.append((self.clock.now_ps, switch, port, hears))

    def fly(self, switch: int, port: int, frame: bytes) -> None:
        self.sent.append((self.clock.now_ps, switch, port, frame))
        link = self.topology.link_at(switch, port)
        other = link.other(switch)
        if (other, link.port(other)) not in self.deaf:
            self.clock.call_later(FLIGHT, self.arrive, other, link.port(other), frame)

    def arrive(self, switch: int, port: int, frame: bytes) -> None:
        packet = P4PacketIn(frame, metadata={"ingress_port": port, "reason": self.reason})
        self.callbacks[switch](packet)


class BusyClock(VirtualClock):
    """What falls due in a busy span happens at its end, as in a loop that was held up."""

    busy = range(0)

    def call_later(self, delay_ps: int, callback: Callable[..., object], *args: Any) -> Handle:
        due_ps = self.now_ps + delay_ps
        if due_ps in self.busy:
            delay_ps = self.busy.stop - self.now_ps
        return super().call_later(delay_ps, callback, *args)


class Client:
    def __init__(self, bench: Bench, switch: int) -> None:
        self.bench, self.switch = bench, switch

    def packet_out(self, payload: bytes, **metadata: Any) -> None:
        assert metadata == {"egress_port": metadata["egress_port"], "to_pipeline": 0, "pad": 0}
        self.bench.fly(self.switch, metadata["egress_port"], payload)

    def on_packet_in(self, callback: Callable[[P4PacketIn], None], **wanted: int) -> None:
        self.bench.callbacks[self.switch] = lambda packet: (
            callback(packet) if all(packet[k] == v for k, v in wanted.items()) else None
        )


def test_every_switch_probes_its_fabric_ports_in_turn() -> None:
    bench = Bench()
    bench.clock.run(233)
    # Three switches, a third of 100 apart; the host's port 1 of the leaf is left alone.
    assert [(time, switch, port) for time, switch, port, _ in bench.sent] == [
        *((33, 1, 2), (33, 1, 3), (66, 2, 1), (100, 3, 1)),
        *((133, 1, 2), (133, 1, 3), (166, 2, 1), (200, 3, 1)),
        *((233, 1, 2), (233, 1, 3)),
    ]
    frame = bench.sent[2][3]
    assert len(frame) == 60
    assert frame[14:26].hex() == "16" + "00" + "0000" + "00000002" + "00000001"
    assert bench.sent[6][3][22:26].hex() == "00000002"


def test_an_end_that_hears_nothing_for_the_detection_time_says_so_once() -> None:
    bench = Bench()
    bench.clock.call_at(350, bench.deaf.add, (1, 3))  # what spine1 (id 3) sends to the leaf
    bench.clock.call_at(1050, bench.deaf.clear)
    bench.clock.run(1500)
    # Sent at 300, heard at 301, missed since: silent at 601. Sent at 1100, heard at 1101.
    assert bench.told == [(601, 1, 3, False), (1101, 1, 3, True)]


def test_a_controller_that_was_held_up_blames_no_link() -> None:
    clock = BusyClock()
    clock.busy = range(367, 1500)  # a probe of spine1's is under way
    bench = Bench(clock=clock)
    clock.run(3000)
    assert bench.told == []
    # Probes that were really sent count as before.
    bench.deaf.add((1, 3))
    clock.run(4000)
    assert [(switch, port, hears) for _, switch, port, hears in bench.told] == [(1, 3, False)]


def test_an_end_that_never_heard_anybody_is_silent_too() -> None:
    bench = Bench()
    bench.deaf.add((2, 1))
    bench.clock.run(400)
    assert bench.told == [(300, 2, 1, False)]


def test_a_port_that_is_down_is_neither_probed_nor_watched() -> None:
    bench = Bench()
    bench.clock.call_at(350, bench.prober.port_state, 1, 3, False)
    bench.clock.call_at(350, bench.deaf.add, (1, 3))
    bench.clock.call_at(1050, bench.prober.port_state, 1, 3, True)
    bench.clock.run(1400)
    assert [t for t, switch, port, _ in bench.sent if (switch, port) == (1, 3) and t > 350] == [
        *(1133, 1233, 1333)
    ]
    # spine1 hears nothing of it meanwhile (its port is up here), the leaf not after its port is back.
    assert bench.told == [
        (334 + 300, 3, 1, False),
        (1134, 3, 1, True),
        (1050 + 300, 1, 3, False),
    ]


def test_a_silence_that_turns_out_to_be_a_dead_port_is_the_ports_to_report() -> None:
    bench = Bench()
    bench.deaf.add((1, 3))
    bench.clock.call_at(500, bench.prober.port_state, 1, 3, False)
    bench.clock.run(700)
    assert bench.told == [(300, 1, 3, False), (500, 1, 3, True)]


def test_other_packet_ins_are_no_probes() -> None:
    bench = Bench()
    bench.reason = REASON_AGENT
    bench.clock.run(350)
    assert {(time, hears) for time, _, _, hears in bench.told} == {(300, False)}
    assert len(bench.told) == 4


def test_host_ports_are_ignored_and_detection_zero_is_off() -> None:
    bench = Bench()
    bench.prober.port_state(1, 1, False)
    off = Bench(0)
    off.prober.port_state(1, 2, False)
    off.clock.run(10_000)
    assert (off.sent, off.told) == ([], [])


def test_a_probe_decodes() -> None:
    bench = Bench()
    bench.clock.run(33)
    key = messages.FabricKey(bytes(16))
    probe = messages.decode(messages.payload(bench.sent[0][3]), key)
    assert probe == messages.Probe(origin=1, incarnation=0, seq=1)
