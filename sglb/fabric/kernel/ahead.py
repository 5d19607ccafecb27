"""What the next nodes of a window will need, brought near while one runs.

A large fabric does not fit into a processor's nearer caches, and a node touches some hundred lines of
memory in a window, many of them found by way of another. All frames that will arrive in a window are on
their wires when it begins, so what they need is known: a few nodes before their turn it is asked for, in
steps, of which each looks at what the one before has asked for. Nothing here changes what happens, only
how long it takes.
"""

from __future__ import annotations

from typing import Final

from sglb.fabric.kernel import layout as k
from sglb.fabric.kernel import templates
from sglb.p4.native import abi
from sglb.switch.core import model as m
from sglb.switch.core.call import fetch
from sglb.switch.core.heap import index_of, kind_of
from sglb.switch.core.jit import compiled, inlined
from sglb.switch.core.rows import data_at
from sglb.switch.core.trails import trail_of
from sglb.switch.core.world import World

_LINE_WORDS: Final = 8
_LINE_BYTES: Final = 64
#: Words of a node's record that packets need.
_NODE_WORDS: Final = 48
_MACHINE_LINES: Final = 6
_MOST_EVENTS: Final = 32
#: Notes on a node: where the rows that its events are about end, those behind them on their wires, and
#: those behind these; then the rows.
_FIRST, _SECOND, _THIRD, _ROWS = 0, 1, 2, 3
_MOST_ROWS: Final = m.AHEAD_WORDS - _ROWS
#: Where a port's record has what receiving and sending take; what serving takes lies between.
_RECEIVE, _SEND = 0, 16


@inlined
def _near(world: World, word: int, words: int) -> None:
    """Asks for so many words of the block, which begin at a line."""
    at = world.w[m.BASE] + word * 8
    for line in range((words + _LINE_WORDS - 1) // _LINE_WORDS):
        fetch(at + line * _LINE_BYTES)


@inlined
def _line(world: World, word: int) -> None:
    """Asks for the line with a word of the block."""
    fetch(world.w[m.BASE] + word * 8)


@inlined
def _notes(world: World, place: int) -> int:
    """Where the notes are on the node whose turn is number `place`."""
    return world.w[m.AHEAD_AT] + (place & (m.AHEAD_NODES - 1)) * m.AHEAD_WORDS


@compiled
def gather(world: World, end: int) -> int:
    """Lists the heaps with events before `end`, in order, in ACTIVE; how many there are."""
    w = world.w
    firsts, active, count = w[m.FIRSTS_AT], w[m.ACTIVE_AT], 0
    for heap in range(w[m.HEAPS]):
        w[active + count] = heap
        if w[firsts + heap] < end:
            count += 1
    return count


@compiled
def prepare(world: World, place: int, count: int, end: int) -> None:
    """Takes a step for each of the nodes whose turns are number `place` of ACTIVE and the next ones."""
    w = world.w
    active = w[m.ACTIVE_AT] + place
    left = count - place
    if left > 7:
        _near(world, w[m.HEAPS_AT] + w[active + 7] * m.HEAP_WORDS, m.HEAP_WORDS)
        _near(world, w[m.NODES_AT] + w[active + 7] * m.NODE_WORDS, _NODE_WORDS)
    if left > 6:
        _events(world, w[active + 6])
    if left > 5:
        _rows(world, w[active + 5], place + 5, end)
    if left > 4:
        _behind(world, w[active + 4], place + 4)
    if left > 3:
        _followers(world, w[active + 3], place + 3, 0, end)
    if left > 2:
        _followers(world, w[active + 2], place + 2, 1, end)
    switches = w[m.SWITCHES]
    if left > 1 and w[active + 1] < switches:
        _last_trails(world, w[active + 1], place + 1)
    if w[active] < switches:
        notes = _notes(world, place)
        _trails(world, w[active], notes, w[notes + _SECOND], w[notes + _THIRD])


@compiled
def _events(world: World, node: int) -> None:
    """The heap's events and the machine, or the host."""
    w = world.w
    head = w[m.HEAPS_AT] + node * m.HEAP_WORDS
    _near(world, w[head + m.HEAP_FIRST], min(w[head + m.HEAP_SIZE], _MOST_EVENTS) * m.EVENT_WORDS)
    record = w[m.NODES_AT] + node * m.NODE_WORDS
    if node < w[m.SWITCHES]:
        for line in range(_MACHINE_LINES):
            fetch(w[record + m.N_MACHINE] + line * _LINE_BYTES)
    else:
        host = w[m.HOSTS_AT] + w[record + m.N_HOST] * k.HOST_WORDS
        _near(world, host, k.HS_BAD)


@compiled
def _rows(world: World, node: int, place: int, end: int) -> None:
    """The rows, ports and queue pairs that its events are about."""
    w = world.w
    head = w[m.HEAPS_AT] + node * m.HEAP_WORDS
    event = w[head + m.HEAP_FIRST]
    record = w[m.NODES_AT] + node * m.NODE_WORDS
    port = w[m.PORTS_AT] + w[record + m.N_FIRST_PORT] * m.PORT_WORDS
    rows = _notes(world, place) + _ROWS
    count = 0
    for _ in range(min(w[head + m.HEAP_SIZE], _MOST_EVENTS)):
        if w[event + m.E_TIME] < end:
            kind, index = kind_of(w[event + m.E_ORDER]), index_of(w[event + m.E_ORDER])
            row = w[event + m.E_ROW]
            if kind == m.EV_WIRE:
                _line(world, port + index * m.PORT_WORDS + _RECEIVE)
            elif kind == m.EV_FREE:
                _near(world, port + index * m.PORT_WORDS, _SEND + _LINE_WORDS)
            elif m.EV_QP <= kind <= m.EV_ACK:
                host = w[m.HOSTS_AT] + w[record + m.N_HOST] * k.HOST_WORDS
                _near(world, w[host + k.H_FIRST_QP] + index * k.QP_WORDS, k.QP_WORDS)
            if row and count < _MOST_ROWS:
                w[rows + count] = row
                count += 1
                _row(world, row)
        event += m.EVENT_WORDS
    w[rows - _ROWS + _FIRST] = count
    if node < w[m.SWITCHES] and w[record + m.N_PROGRAM] >= 0:
        program = w[m.PROGRAMS_AT] + w[record + m.N_PROGRAM] * m.PROGRAM_WORDS
        tables = ((w[record + m.N_MACHINE] - w[m.BASE]) >> 3) + abi.FIRST_TABLE
        for table in range(w[program + m.F_TABLES]):
            fetch(w[tables + table])


@inlined
def _row(world: World, row: int) -> None:
    _near(world, row, world.w[m.ROW_WORDS])


@compiled
def _behind(world: World, node: int, place: int) -> None:
    """Where the rows' wires and trails are, or their queue pairs; what is behind them."""
    w = world.w
    rows = _notes(world, place) + _ROWS
    for number in range(w[rows - _ROWS + _FIRST]):
        row = w[rows + number]
        if w[row + m.R_NEXT] >= 0:
            _line(world, w[row + m.R_NEXT] + m.R_TIME)
        sender = world.h[row * 2 + m.RH_OUT_PORT]
        _line(world, w[m.PORTS_AT] + sender * m.PORT_WORDS + _SEND)
        if node < w[m.SWITCHES]:
            _trail_record(world, node, row)
        else:
            _queue_pair(world, node, row)


@inlined
def _queue_pair(world: World, node: int, row: int) -> None:
    """The end of a queue pair that a frame names."""
    w = world.w
    host = w[m.HOSTS_AT] + w[w[m.NODES_AT] + node * m.NODE_WORDS + m.N_HOST] * k.HOST_WORDS
    bth = data_at(world, row) + templates.bth_offset(world, host)
    index = templates.get24(world, bth + 5) - k.FIRST_QPN
    _near(world, w[host + k.H_FIRST_QP] + index * k.QP_WORDS, k.QP_WORDS)


@compiled
def _followers(world: World, node: int, place: int, depth: int, end: int) -> None:
    """The rows behind those of a depth that come in this window too; what these rows' trails name."""
    w = world.w
    notes = _notes(world, place)
    first = w[notes + depth - 1] if depth else 0
    last = w[notes + depth]
    count = last
    for number in range(first, last):
        row = w[w[notes + _ROWS + number] + m.R_NEXT]
        if row >= 0 and w[row + m.R_TIME] < end and count < _MOST_ROWS:
            w[notes + _ROWS + count] = row
            count += 1
            _row(world, row)
            if w[row + m.R_NEXT] >= 0:
                _line(world, w[row + m.R_NEXT] + m.R_TIME)
    w[notes + depth + 1] = count
    if node < w[m.SWITCHES]:
        if depth:
            _trail_records(world, node, notes, first, last)
        else:
            _trails(world, node, notes, first, last)


@compiled
def _last_trails(world: World, switch: int, place: int) -> None:
    w = world.w
    notes = _notes(world, place)
    _trails(world, switch, notes, w[notes + _FIRST], w[notes + _SECOND])
    _trail_records(world, switch, notes, w[notes + _SECOND], w[notes + _THIRD])


@inlined
def _trail_records(world: World, switch: int, notes: int, first: int, end: int) -> None:
    for number in range(first, end):
        _trail_record(world, switch, world.w[notes + _ROWS + number])


@inlined
def _trail_record(world: World, switch: int, row: int) -> None:
    start = _trail_start(world, switch, row)
    _near(world, trail_of(world, switch, row) + start, m.TRAIL_WORDS - start)


@inlined
def _trail_start(world: World, switch: int, row: int) -> int:
    """The first word that matters of a row's trail: one that waits at a port needs egress alone."""
    sender = world.w[m.PORTS_AT] + world.h[row * 2 + m.RH_OUT_PORT] * m.PORT_WORDS
    return abi.EGRESS_TRAIL if world.w[sender + m.P_NODE] == switch else 0


@inlined
def _in_port(world: World, switch: int, row: int) -> int:
    """The port of a switch by which a row comes in."""
    w = world.w
    sender = w[m.PORTS_AT] + world.h[row * 2 + m.RH_OUT_PORT] * m.PORT_WORDS
    return w[w[m.NODES_AT] + switch * m.NODE_WORDS + m.N_FIRST_PORT] + index_of(
        w[sender + m.P_ARRIVE]
    )


@compiled
def _trails(world: World, switch: int, notes: int, first: int, end: int) -> None:
    """What the last packets of some rows' flows touched."""
    w = world.w
    for number in range(first, end):
        row = w[notes + _ROWS + number]
        trail = trail_of(world, switch, row)
        start = _trail_start(world, switch, row)
        if start == 0:
            _queue(world, switch, row, w[trail + m.TR_QUEUE] - 1)
            for word in range(abi.OWN_TRAIL):
                if w[trail + word]:
                    fetch(w[trail + word])
        for word in range(abi.EGRESS_TRAIL, abi.TRAIL_WORDS):
            if w[trail + word]:
                fetch(w[trail + word])


@inlined
def _queue(world: World, switch: int, row: int, queue: int) -> None:
    """The queue that a packet will likely come to, its port, and the group that will count it."""
    w = world.w
    if queue >= 0:
        _line(world, w[m.QUEUES_AT] + queue * m.QUEUE_WORDS)
        _near(world, w[m.PORTS_AT] + queue // m.CLASSES * m.PORT_WORDS, _SEND + _LINE_WORDS)
        group = _in_port(world, switch, row) * m.CLASSES + queue % m.CLASSES
        _line(world, w[m.GROUPS_AT] + group * m.GROUP_WORDS)
