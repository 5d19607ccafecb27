"""From a network and its settings to the arrays of the compiled step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sglb.fabric.dcqcn_config import ALPHA_ONE
from sglb.switch.clock import PS_PER_US
from sglb.watermark.arrays import Flat, Floats, Ints, Marks, Net, Rules, State, Tally, Work
from sglb.watermark.errors import WatermarkError
from sglb.watermark.network import Hop, Ingress, Network
from sglb.watermark.settings import Watermarks

#: Bytes a microsecond of 1 Gbit/s.
BYTES_US_PER_GBPS = 125.0
#: Stands for no bound, in bytes; infinities would need care in every difference.
ENDLESS_BYTES = 1e18
#: Slots of history beyond the longest delay: those that interpolation and the step itself touch.
_SPARE_SLOTS = 4
#: A delay of so nearly whole steps is meant to be one of whole steps.
_ROUND_STEPS = 1e-6

#: One for all switches, or one for each by name.
Setting = Watermarks | Mapping[str, Watermarks]


@dataclass(frozen=True, slots=True)
class Timing:
    """How a network is solved.

    Attributes:
        duration_us: length of the run.
        step_us: fixed step, at most every feedback delay and every link between two queues.
        measure_from_us: averages, percentiles and counters are of what comes after it.
        sample_us: queues and rates are sampled so often; None: a thousandth of the run.
    """

    duration_us: float = 50_000.0
    step_us: float = 1.0
    measure_from_us: float = 0.0
    sample_us: float | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.step_us) and self.step_us > 0):
            raise WatermarkError(f"step_us must be above 0, got {self.step_us!r}")
        if not (math.isfinite(self.duration_us) and self.duration_us >= self.step_us):
            raise WatermarkError(
                f"duration_us must be at least a step of {self.step_us:g} us, got "
                f"{self.duration_us!r}"
            )
        if not 0 <= self.measure_from_us < self.duration_us:
            raise WatermarkError(
                f"measure_from_us must be from 0 to below {self.duration_us:g} us, got "
                f"{self.measure_from_us!r}"
            )
        if self.sample_us is not None and not self.step_us <= self.sample_us <= self.duration_us:
            raise WatermarkError(
                f"sample_us must be from {self.step_us:g} to {self.duration_us:g} us, got "
                f"{self.sample_us!r}"
            )

    @property
    def steps(self) -> int:
        """Whole steps of the run."""
        return round(self.duration_us / self.step_us)

    @property
    def first_measured(self) -> int:
        """The step that measuring begins with."""
        return min(round(self.measure_from_us / self.step_us), self.steps - 1)

    @property
    def sample_every(self) -> int:
        """Steps from sample to sample."""
        apart = self.duration_us / 1_000 if self.sample_us is None else self.sample_us
        return max(1, round(apart / self.step_us))

    @property
    def sample_times_us(self) -> Floats:
        """Shape (S,)."""
        every = self.sample_every
        numbers = np.arange(1, self.steps // every + 1, dtype=np.float64)
        return numbers * every * self.step_us


def rules(network: Network, timing: Timing) -> Rules:
    """DCQCN's constants in the step's units."""
    config = network.dcqcn
    cnp_us = max(config.cnp_interval_ps, config.decrease_interval_ps, 1) / PS_PER_US
    packet_bits = network.packet_bytes * 8
    # Floats throughout but for the threshold: an int would have the step compiled anew for it.
    return Rules(
        dt=float(timing.step_us),
        packet_bytes=float(network.packet_bytes),
        cnp_us=cnp_us,
        alpha_us=config.alpha_timer_ps / PS_PER_US,
        timer_us=config.timer_ps / PS_PER_US,
        bytes_packets=config.byte_counter_bytes / network.packet_bytes,
        threshold=config.threshold,
        g=config.g / ALPHA_ONE,
        increase=config.rate_ai_bps / packet_bits / 1e6,
        cut=0.5**config.alpha_shift / cnp_us,
        least=config.min_rate_bps / 8e6,
    )


def net(network: Network, timing: Timing) -> Net:
    """The network's numbers. Raises `WatermarkError` for a delay that is shorter than the step."""
    numbers = {
        kind: {part.name: i for i, part in enumerate(parts)} for kind, parts in network.parts()
    }
    strands = [
        (f, hop, place)
        for f, flow in enumerate(network.flows)
        for place, hop in enumerate(flow.hops)
    ]
    ends = np.cumsum([0, *(len(flow.hops) for flow in network.flows)])
    pauser = {ingress.pauses: i for i, ingress in enumerate(network.ingresses) if ingress.pfc}
    step = timing.step_us
    pause_steps = 0.0 if network.pause_us is None else float(max(1, round(network.pause_us / step)))
    return Net(
        flow_at=_ints(ends),
        flow_source=_ints(numbers["source"][flow.source] for flow in network.flows),
        flow_count=_floats(flow.count for flow in network.flows),
        flow_line=_rates(
            next(s.rate_gbps for s in network.sources if s.name == flow.source)
            for flow in network.flows
        ),
        flow_start=_ints(round(flow.start_us / step) for flow in network.flows),
        flow_bytes=_floats(
            math.inf if flow.size_bytes is None else flow.size_bytes for flow in network.flows
        ),
        strand_flow=_ints(f for f, _, _ in strands),
        strand_queue=_ints(numbers["queue"][hop.queue] for _, hop, _ in strands),
        strand_ingress=_ints(numbers["ingress"][hop.ingress] for _, hop, _ in strands),
        strand_prev=_ints(-1 if place == 0 else m - 1 for m, (_, _, place) in enumerate(strands)),
        strand_delay=_floats(_link_steps(hop, place, step) for _, hop, place in strands),
        strand_feedback=_floats(
            _at_least_a_step(hop.feedback_us, "feedback_us", hop, step) for _, hop, _ in strands
        ),
        queue_rate=_rates(queue.rate_gbps for queue in network.queues),
        queue_pauser=_ints(pauser.get(queue.name, -1) for queue in network.queues),
        source_rate=_rates(source.rate_gbps for source in network.sources),
        source_count=_floats(source.count for source in network.sources),
        source_pauser=_ints(pauser.get(source.name, -1) for source in network.sources),
        ingress_switch=_ints(numbers["switch"][i.switch] for i in network.ingresses),
        ingress_count=_floats(i.count for i in network.ingresses),
        ingress_delay=_ints(round(i.delay_us / step) for i in network.ingresses),
        ingress_pauses=_ints(int(i.pfc) for i in network.ingresses),
        pause_steps=pause_steps,
        steps=timing.steps,
        measure_from=timing.first_measured,
        sample_every=timing.sample_every,
    )


def _ints(values: object) -> Ints:
    return np.array(list(values), dtype=np.int64)  # type: ignore[call-overload]


def _floats(values: object) -> Floats:
    return np.array(list(values), dtype=np.float64)  # type: ignore[call-overload]


def _rates(values_gbps: object) -> Floats:
    return _floats(values_gbps) * BYTES_US_PER_GBPS


def _link_steps(hop: Hop, place: int, step: float) -> float:
    if place == 0:
        return _whole(hop.link_us / step)
    return _at_least_a_step(hop.link_us, "link_us", hop, step)


def _at_least_a_step(delay_us: float, what: str, hop: Hop, step: float) -> float:
    steps = _whole(delay_us / step)
    if steps < 1:
        raise WatermarkError(
            f"a step of {step:g} us is longer than {what} of the hop into {hop.queue!r} "
            f"({delay_us:g} us); take a shorter step"
        )
    return steps


def _whole(steps: float) -> float:
    nearest = round(steps)
    return float(nearest) if abs(steps - nearest) < _ROUND_STEPS else steps


def marks(network: Network, settings: Sequence[Setting]) -> Marks:
    """A batch's watermarks, a lane a setting. Raises `WatermarkError` that names the setting."""
    lanes = len(settings)
    of = [[_of_switch(setting, switch.name) for setting in settings] for switch in network.switches]
    numbers = {switch.name: i for i, switch in enumerate(network.switches)}

    def values(switches: Sequence[str], key: str) -> Floats:
        rows = [[getattr(w, key) or 0.0 for w in of[numbers[name]]] for name in switches]
        return np.array(rows, dtype=np.float64).reshape(len(switches), lanes)

    queues = [queue.switch for queue in network.queues]
    ingresses = [ingress.switch for ingress in network.ingresses]
    pauses = np.array([[float(ingress.pfc)] for ingress in network.ingresses])
    room = pauses * [
        [_room(setting, ingress) for setting in of[numbers[ingress.switch]]]
        for ingress in network.ingresses
    ]
    pool = np.full((len(network.switches), lanes), ENDLESS_BYTES)
    for w, switch in enumerate(network.switches):
        if math.isinf(switch.buffer_bytes):
            continue
        taken = sum(
            ingress.count * room[i]
            for i, ingress in enumerate(network.ingresses)
            if ingress.switch == switch.name
        )
        pool[w] = switch.buffer_bytes - taken
        if pool[w].min() <= 0:
            raise WatermarkError(
                f"switch {switch.name!r}: headroom of {np.max(taken):,.0f} bytes leaves nothing of "
                f"its buffer of {switch.buffer_bytes:,.0f} bytes"
            )
    return Marks(
        kmin=values(queues, "kmin_bytes"),
        kmax=values(queues, "kmax_bytes"),
        pmax=values(queues, "pmax"),
        alpha=values(ingresses, "alpha"),
        xoff=values(ingresses, "xoff_bytes"),
        xon=values(ingresses, "xon_offset_bytes"),
        room=room,
        pool=pool,
    )


def _room(marks_of: Watermarks, ingress: Ingress) -> float:
    given = marks_of.headroom_bytes
    return ingress.headroom_bytes if given is None else given


def _of_switch(setting: Setting, name: str) -> Watermarks:
    if isinstance(setting, Watermarks):
        return setting
    if name not in setting:
        raise WatermarkError(f"the setting has no watermarks for switch {name!r}")
    return setting[name]


def slots(made: Net) -> int:
    """History that the longest delay needs, in steps."""
    delays = (made.strand_delay, made.strand_feedback, made.ingress_delay)
    return math.ceil(max(float(delay.max()) for delay in delays)) + _SPARE_SLOTS


def state(network: Network, made: Net, lanes: int) -> State:
    """As it is at time 0: empty queues, alpha as DCQCN begins it, sources at their start rate."""
    flows, strands, queues, ingresses, depth = _sizes(made)
    starts = [flow.start_gbps for flow in network.flows]
    line = made.flow_line / BYTES_US_PER_GBPS
    rates = _rates(line[f] if s is None else min(s, line[f]) for f, s in enumerate(starts))
    rate = np.repeat(rates[:, None], lanes, axis=1)
    return State(
        rate=rate,
        target=rate.copy(),
        alpha=np.full((flows, lanes), network.dcqcn.initial_alpha / ALPHA_ONE),
        held=np.zeros((strands, lanes)),
        shared=np.zeros((ingresses, lanes)),
        head=np.zeros((ingresses, lanes)),
        pausing=np.zeros((ingresses, lanes)),
        left=np.zeros((ingresses, lanes)),
        used=np.zeros((len(network.switches), lanes)),
        sent=np.zeros((depth, flows, lanes)),
        passed=np.zeros((depth, strands, lanes)),
        logs=np.zeros((depth, queues, lanes)),
        chances=np.zeros((depth, queues, lanes)),
        pauses=np.zeros((depth, ingresses, lanes)),
    )


def work(made: Net, lanes: int) -> Work:
    """Room for a step."""
    flows, strands, queues, ingresses, _ = _sizes(made)
    rows = [flows] * 9 + [strands] * 2 + [queues] * 2 + [ingresses] * 3 + [made.source_rate.size]
    return Work(*(np.zeros((count, lanes)) for count in rows))


def flat(room: Work) -> Flat:
    """See `Flat`."""
    return Flat(*(getattr(room, name).reshape(-1) for name in Flat._fields))


def tally(made: Net, lanes: int) -> Tally:
    """Nothing found yet."""
    flows, strands, queues, ingresses, _ = _sizes(made)
    samples = made.steps // made.sample_every
    by_queue = {name: np.zeros((queues, lanes)) for name in Tally._fields[:5]}
    by_ingress = {name: np.zeros((ingresses, lanes)) for name in Tally._fields[5:8]}
    return Tally(
        **by_queue,
        **by_ingress,
        lost=np.zeros((strands, lanes)),
        done=np.full((flows, lanes), -1.0),
        passed_then=np.zeros((strands, lanes)),
        lost_then=np.zeros((strands, lanes)),
        depth=np.zeros((samples, queues, lanes)),
        rates=np.zeros((samples, flows, lanes)),
        stopped=np.zeros((samples, ingresses, lanes)),
    )


def _sizes(made: Net) -> tuple[int, int, int, int, int]:
    return (
        made.flow_count.size,
        made.strand_queue.size,
        made.queue_rate.size,
        made.ingress_switch.size,
        slots(made),
    )
