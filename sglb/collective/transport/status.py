"""What a transport says of itself."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sglb.collective.transport.stats import ChannelStats, RailStats, Stats

if TYPE_CHECKING:
    from sglb.collective.transport.group import Group


def snapshot(group: Group) -> Stats:
    """Counters and state now; under the engine's lock."""
    channels = [
        ChannelStats(
            peer=peer.rank,
            index=channel.index,
            epoch=channel.epoch,
            rail=channel.rails[0],
            remote_rail=channel.rails[1],
            up=channel.up,
            rate=channel.rate,
            inflight_bytes=channel.inflight_bytes,
            sent_bytes=channel.sent_bytes,
            received_bytes=channel.received_bytes,
        )
        for peer in group.peers.values()
        for channel in peer.channels.values()
    ]
    rails = []
    known = {rail.name: (number, rail.address) for number, rail in enumerate(group.rails)}
    others = {c.rail for c in channels} | set(group.past)
    for name in [*known, *sorted(others - set(known))]:
        mine = [c for c in channels if c.rail == name]
        sent, received, failovers = group.past.get(name, (0, 0, 0))
        number, address = known.get(name, (None, ""))
        rails.append(
            RailStats(
                name=name,
                address=address,
                carrier=number is None or group.carrier[number],
                channels_up=sum(c.up for c in mine),
                channels_down=0 if number is None else group.slots_on(number) - len(mine),
                rate=sum(c.rate for c in mine),
                sent_bytes=sent + sum(c.sent_bytes for c in mine),
                received_bytes=received + sum(c.received_bytes for c in mine),
                failovers=failovers,
            )
        )
    return Stats(
        rank=group.rank,
        size=group.size,
        group=group.settings.group,
        state="open" if group.error is None else str(group.error),
        detection_bound_s=group.settings.detection_s,
        relayed_bytes=group.relays.passed_bytes,
        shared_bytes=0 if group.commons is None else group.commons.taken_bytes,
        rails=rails,
        channels=channels,
        peers={rank: replace(peer.stats) for rank, peer in group.peers.items()},
        events=list(group.events),
    )
