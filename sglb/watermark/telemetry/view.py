"""From what switches have reported to an interval as the tuner judges it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from sglb.switch.clock import PS_PER_S, PS_PER_US
from sglb.watermark.telemetry.collector import SwitchView
from sglb.watermark.telemetry.reading import CLASSES, WHOLE, Field
from sglb.watermark.tuner.observation import Observation


@dataclass(frozen=True, slots=True)
class PortFacts:
    """What a tuner knows of a port beforehand: its rate, and whether a host is at its other end."""

    rate_bps: int
    to_host: bool


@dataclass(frozen=True, slots=True)
class FabricFacts:
    """What a tuner knows of a fabric beforehand.

    Attributes:
        ports: by switch and P4 port number.
        traffic_class: the class that is tuned.
        base_ps: a round trip over the longest way, without queues.
        data_bytes: frames longer than that on average are data, not acknowledges.
    """

    ports: Mapping[tuple[int, int], PortFacts]
    traffic_class: int
    base_ps: int
    data_bytes: int

    def __post_init__(self) -> None:
        if not 0 <= self.traffic_class < CLASSES:
            raise ValueError(f"a class is 0 to {CLASSES - 1}, got {self.traffic_class}")


def observation(facts: FabricFacts, views: Iterable[tuple[int, SwitchView]]) -> Observation:
    """Sums up the last interval of all switches, as `sglb.watermark.tuner.fabric` does what it reads.

    Time for which hosts were paused is what their switches held them for. Ports that `facts` doesn't
    know are left out.
    """
    rows, rates, to_host, spans = [], [], [], [1]
    for switch, view in views:
        for at, port in enumerate(view.ports):
            known = facts.ports.get((switch, port))
            if known is not None:
                rows.append(view.values[at])
                rates.append(known.rate_bps)
                to_host.append(known.to_host)
        spans.append(view.span_us)
    if not rows:
        return Observation(1.0, 0.0, 1.0, 1.0, 0, 0.0, 0.0)
    return _summed(
        facts,
        np.array(rows, np.float64),
        np.array(rates, np.float64),
        np.array(to_host),
        max(spans),
    )


def _summed(
    facts: FabricFacts,
    values: np.typing.NDArray[np.float64],
    rates: np.typing.NDArray[np.float64],
    to_host: np.typing.NDArray[np.bool_],
    span_us: int,
) -> Observation:
    whole, tuned = values[:, WHOLE], values[:, facts.traffic_class]
    sent = values[:, :CLASSES, Field.SENT_BYTES].sum(axis=1)
    data = facts.data_bytes
    busy = to_host & (sent > whole[:, Field.SENT_PACKETS] * data)
    sends = to_host & (whole[:, Field.RECEIVED_BYTES] > whole[:, Field.RECEIVED_PACKETS] * data)
    delivered = sent[busy].sum()
    could = rates[busy].sum() * span_us * PS_PER_US / PS_PER_S / 8
    waits_ps = tuned[:, Field.QUEUE_MEAN_BYTES] * 8 * PS_PER_S / rates
    queued_ps = float((waits_ps * sent).sum() / delivered) if delivered else 0.0
    # A link between switches has both its ends here, one to a host has one.
    paused_us = (
        tuned[:, Field.PAUSED_NS].sum() + tuned[to_host, Field.PEER_PAUSED_NS].sum()
    ) / 1_000
    ends = len(values) + int(to_host.sum())
    receivers, senders, hosts = int(busy.sum()), int(sends.sum()), int(to_host.sum())
    return Observation(
        duration_us=float(span_us),
        throughput=min(1.0, float(delivered / could)) if could else 0.0,
        delay=facts.base_ps / (facts.base_ps + queued_ps),
        unpaused=1.0 - min(1.0, float(paused_us) / span_us / ends),
        lost_packets=int(whole[:, Field.LOST_PACKETS].sum()),
        fan_in=senders / receivers if receivers else 0.0,
        load=(senders + receivers) / (2 * hosts) if hosts else 0.0,
    )
