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
    for number, rail in enumerate(group.rails):
        mine = [c for c in channels if c.rail == rail.name]
        rails.append(
            RailStats(
                name=rail.name,
                address=rail.address,
                carrier=group.carrier[number],
                channels_up=sum(c.up for c in mine),
                channels_down=group.slots_on(number) - len(mine),
                rate=sum(c.rate for c in mine),
                sent_bytes=group.rail_bytes[number][0] + sum(c.sent_bytes for c in mine),
                received_bytes=group.rail_bytes[number][1] + sum(c.received_bytes for c in mine),
                failovers=group.rail_failovers[number],
            )
        )
    return Stats(
        rank=group.rank,
        size=group.size,
        group=group.settings.group,
        state="open" if group.error is None else str(group.error),
        detection_bound_s=group.settings.detection_s,
        rails=rails,
        channels=channels,
        peers={rank: replace(peer.stats) for rank, peer in group.peers.items()},
        events=list(group.events),
    )
