"""What is due at a class's alarms: the end of a pause, the watchdog, the renewal of a pause sent.

The watchdog is SONiC's: a class that has been paused without a break for the detection time, while
packets wait, is in a storm (a peer that never lets go). Then its packets are dropped, or sent whatever
the peer says, until the pause is over and none was received for the restore time.
"""

from __future__ import annotations

from sglb.switch.core import buffer, pfc, tm
from sglb.switch.core import model as m
from sglb.switch.core.buffer import class_at, group_at, node_at, port_at, queue_at
from sglb.switch.core.jit import compiled
from sglb.switch.core.observe import log
from sglb.switch.core.world import World


@compiled
def pause_event(world: World, port: int, alarm: int, now: int) -> None:
    """An EV_PAUSE_END. `alarm` is the event's index within the port: ALARM_* times CLASSES + class."""
    w = world.w
    kind, cls = alarm // m.CLASSES, alarm % m.CLASSES
    queue = queue_at(world, port, cls)
    w[queue + m.Q_ALARMS + kind] = 0
    if kind == m.ALARM_OVER:
        if w[port_at(world, port) + m.P_PAUSED] >> cls & 1:
            if now >= w[queue + m.Q_PAUSE_UNTIL]:
                pfc.resume(world, port, cls, now)
            else:
                pfc.arm(world, port, cls, kind, w[queue + m.Q_PAUSE_UNTIL])
    elif kind == m.ALARM_WATCH:
        if w[queue + m.Q_WATCHDOG] != 0:
            if now >= w[queue + m.Q_WATCH_AT]:
                _bark(world, port, cls, now)
            else:
                pfc.arm(world, port, cls, kind, w[queue + m.Q_WATCH_AT])
    else:
        _renew(world, port, cls, now)


@compiled
def _renew(world: World, port: int, cls: int, now: int) -> None:
    w = world.w
    group = group_at(world, port, cls)
    if w[group + m.G_XOFF] == 0:
        return
    if now < w[group + m.G_REFRESH]:
        pfc.arm(world, port, cls, m.ALARM_RENEW, w[group + m.G_REFRESH])
        return
    node_record = node_at(world, w[port_at(world, port) + m.P_NODE])
    settings = class_at(world, node_record, cls)
    # The pool may have become free without a packet of this group leaving.
    if buffer.calm(world, node_record, settings, group):
        pfc.xon(world, port, cls, now)
    else:
        pfc.xoff(world, port, cls, settings, now)


@compiled
def _bark(world: World, port: int, cls: int, now: int) -> None:
    """Begins a storm or ends it."""
    w = world.w
    record = port_at(world, port)
    queue = queue_at(world, port, cls)
    settings = class_at(world, node_at(world, w[record + m.P_NODE]), cls)
    if w[queue + m.Q_WATCHDOG] == 2:
        w[queue + m.Q_WATCHDOG] = 0
        w[record + m.P_IGNORE] &= ~((1 | 1 << m.CLASSES) << cls)
        log(world, now, m.LOG_WATCHDOG, port, cls, 0)
        return
    w[queue + m.Q_WATCHDOG] = 2
    w[queue + m.Q_STORMS] += 1
    w[queue + m.Q_CALM_FROM] = now
    pfc.expect_calm(world, port, cls, w[queue + m.Q_PAUSE_UNTIL])
    log(world, now, m.LOG_WATCHDOG, port, cls, 1)
    if w[settings + m.C_WATCH_DROP]:
        w[record + m.P_IGNORE] |= 1 << (m.CLASSES + cls)
        tm.flush_class(world, port, cls, m.DROP_STORM, now)
    else:
        w[record + m.P_IGNORE] |= 1 << cls
        pfc.kick(world, port, now)
