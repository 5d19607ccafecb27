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
from sglb.switch.core.trails import fetch_named, trail_of
from sglb.switch.core.world import World

_LINE_WORDS: Final = 8
_LINE_BYTES: Final = 64
#: Words of a node's record that packets need.
_NODE_WORDS: Final = 48
_MOST_EVENTS: Final = 32
#: How many turns ahead of its own a node is looked at.
STEPS: Final = 8
#: Where in a trail's record the line is that names the queue.
_QUEUE_LINE: Final = m.TRH_QUEUE // 2 // _LINE_WORDS * _LINE_WORDS
_FRAME_WORD: Final = abi.FRAME_BYTE // 8
#: Notes on a node: where the rows that its events are about end, then those behind them on their wires
#: or in their queues, those behind these, and so on; then the rows.
_DEPTHS: Final = 5
_ROWS: Final = _DEPTHS
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
def begin(world: World, count: int, end: int) -> None:
    """Takes the steps for a window's first nodes that nobody's turn was before."""
    for place in range(1 - STEPS, 0):
        for distance in range(STEPS - 1, -place - 1, -1):
            prepare(world, place, distance, count, end)


@compiled
def prepare(world: World, place: int, distance: int, count: int, end: int) -> None:
    """Takes a step for the node whose turn comes `distance` (below `STEPS`) after number `place`."""
    w = world.w
    turn = place + distance
    if turn >= count:
        return
    node = w[w[m.ACTIVE_AT] + turn]
    if distance == 7:
        _near(world, w[m.HEAPS_AT] + node * m.HEAP_WORDS, m.HEAP_WORDS)
        _near(world, w[m.NODES_AT] + node * m.NODE_WORDS, _NODE_WORDS)
    elif distance == 6:
        _events(world, node)
    elif distance == 5:
        _rows(world, node, turn, end)
    else:
        _behind(world, node, turn, 5 - distance, end)
    if 3 <= distance <= 5 and node < w[m.SWITCHES]:
        _piped(world, node, 5 - distance)


@compiled
def _events(world: World, node: int) -> None:
    """The heap's events, and the machine with its tables' heads or the host."""
    w = world.w
    head = w[m.HEAPS_AT] + node * m.HEAP_WORDS
    _near(world, w[head + m.HEAP_FIRST], min(w[head + m.HEAP_SIZE], _MOST_EVENTS) * m.EVENT_WORDS)
    record = w[m.NODES_AT] + node * m.NODE_WORDS
    if node < w[m.SWITCHES]:
        if w[record + m.N_PROGRAM] >= 0:
            program = w[m.PROGRAMS_AT] + w[record + m.N_PROGRAM] * m.PROGRAM_WORDS
            for line in range(w[program + m.F_STATE_LINES]):
                fetch(w[record + m.N_MACHINE] + line * _LINE_BYTES)
        _near(world, _pipe(world, node), m.PIPE_WORDS)
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
                _row(world, node, row)
        event += m.EVENT_WORDS
    w[rows - _ROWS] = count


@inlined
def _row(world: World, node: int, row: int) -> None:
    """All of a row for a switch; a host leaves the program's frame alone."""
    w = world.w
    if node < w[m.SWITCHES]:
        _near(world, row, w[m.ROW_WORDS])
    else:
        data = w[m.ROW_DATA] >> 3
        _near(world, row, _FRAME_WORD)
        _near(world, row + data, w[m.ROW_WORDS] - data)


@inlined
def _pipe(world: World, switch: int) -> int:
    return world.w[m.PIPES_AT] + switch * m.PIPE_WORDS


@compiled
def _piped(world: World, switch: int, step: int) -> None:
    """The rows in a pipeline, where their trails are, or what these name."""
    w, pipe = world.w, _pipe(world, switch)
    first, end = w[pipe + m.PI_TAKEN], w[pipe + m.PI_PUT]
    for number in range(max(first, end - m.PIPE_ROWS), end):
        row = w[pipe + m.PI_ROWS + number % m.PIPE_ROWS]
        if step == 0:
            _row(world, switch, row)
        elif step == 1:
            trail = trail_of(world, switch, row)
            _near(world, trail + _QUEUE_LINE, m.TRAIL_WORDS - _QUEUE_LINE)
        else:
            _piped_trail(world, switch, row)


@inlined
def _piped_trail(world: World, switch: int, row: int) -> None:
    w = world.w
    trail = trail_of(world, switch, row)
    queue = world.h[trail * 2 + m.TRH_QUEUE] - 1
    if queue >= 0:
        _near(world, w[m.QUEUES_AT] + queue * m.QUEUE_WORDS, 2 * _LINE_WORDS)
        _near(world, w[m.PORTS_AT] + queue // m.CLASSES * m.PORT_WORDS, _SEND + _LINE_WORDS)
        group = world.h[row * 2 + m.RH_IN_PORT] * m.CLASSES + queue % m.CLASSES
        _line(world, w[m.GROUPS_AT] + group * m.GROUP_WORDS)
    fetch_named(world, trail, abi.EGRESS_TRAIL, abi.TRAIL_WORDS)


@compiled
def _behind(world: World, node: int, place: int, depth: int, end: int) -> None:
    """Notes the rows of a depth: those behind the ones before that come in this window too.

    Then asks for where the trails are of the ones before, or their queue pairs; and for what the trails
    name of those before these, or the queue pairs' templates.
    """
    w = world.w
    notes = _notes(world, place)
    rows, is_switch = notes + _ROWS, node < w[m.SWITCHES]
    before = w[notes + depth - 2] if depth > 1 else 0
    count = last = w[notes + depth - 1]
    for number in range(before, last):
        row = w[rows + number]
        behind = w[row + m.R_NEXT]
        if depth < _DEPTHS and behind >= 0 and w[row + m.R_AFTER] < end and count < _MOST_ROWS:
            w[rows + count] = behind
            count += 1
            _row(world, node, behind)
        if depth == 1:
            sender = world.h[row * 2 + m.RH_OUT_PORT]
            _line(world, w[m.PORTS_AT] + sender * m.PORT_WORDS + _SEND)
        if is_switch:
            _trail_record(world, node, row)
        else:
            _near(world, _queue_pair(world, node, row), k.QP_WORDS)
    if depth < _DEPTHS:
        w[notes + depth] = count
    if depth > 1:
        first = w[notes + depth - 3] if depth > 2 else 0
        if is_switch:
            _trails(world, node, notes, first, before)
        else:
            for number in range(first, before):
                qp = _queue_pair(world, node, w[rows + number])
                _near(world, w[qp + k.E_TEMPLATE], k.TEMPLATE_WORDS)


@inlined
def _queue_pair(world: World, node: int, row: int) -> int:
    """The end of a queue pair that a frame names."""
    w = world.w
    host = w[m.HOSTS_AT] + w[w[m.NODES_AT] + node * m.NODE_WORDS + m.N_HOST] * k.HOST_WORDS
    bth = data_at(world, row) + templates.bth_offset(world, host)
    index = templates.get24(world, bth + 5) - k.FIRST_QPN
    return w[host + k.H_FIRST_QP] + min(max(index, 0), w[host + k.H_QPS] - 1) * k.QP_WORDS


@inlined
def _trail_record(world: World, switch: int, row: int) -> None:
    start = _trail_start(world, switch, row) // 2
    _near(world, trail_of(world, switch, row) + start, m.TRAIL_WORDS - start)


@inlined
def _trail_start(world: World, switch: int, row: int) -> int:
    """The first word that matters of a row's trail: one that waits at a port needs egress alone."""
    w, record = world.w, world.w[m.NODES_AT] + switch * m.NODE_WORDS
    local = world.h[row * 2 + m.RH_OUT_PORT] - w[record + m.N_FIRST_PORT]
    return abi.EGRESS_TRAIL if 0 <= local < w[record + m.N_PORTS] else 0


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
            _queue(world, switch, row, world.h[trail * 2 + m.TRH_QUEUE] - 1)
            fetch_named(world, trail, 0, abi.OWN_TRAIL)
        fetch_named(world, trail, abi.EGRESS_TRAIL, abi.TRAIL_WORDS)


@inlined
def _queue(world: World, switch: int, row: int, queue: int) -> None:
    """The queue that a packet will likely come to, its port, and the group that will count it."""
    w = world.w
    if queue >= 0:
        _near(world, w[m.QUEUES_AT] + queue * m.QUEUE_WORDS, 2 * _LINE_WORDS)
        _near(world, w[m.PORTS_AT] + queue // m.CLASSES * m.PORT_WORDS, _SEND + _LINE_WORDS)
        group = _in_port(world, switch, row) * m.CLASSES + queue % m.CLASSES
        _line(world, w[m.GROUPS_AT] + group * m.GROUP_WORDS)
