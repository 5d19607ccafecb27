"""Ties a `Switch`, the control plane's side, to a node of a native fabric, the data plane's.

The `Switch` stays what P4Runtime and the control plane work on: its program state lies in memory that
native code reads, its replication engine, ports, timers and frames are passed on here as they change.
The clock of the `Switch` tells when: it must stand at the time at which the change happens, and the
node must have run all its events before that time. Where the node runs in another thread, whatever is
done here is done under `Switch.lock`; in real time an event may come a little later than a change that
it precedes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from sglb.p4.native import abi
from sglb.p4.native import table_layout as lay
from sglb.p4.native.engine import read_digests
from sglb.p4.native.program import NativeProgram, compile_native
from sglb.switch.core import model as m
from sglb.switch.core.generator import start_timer, stop_timer
from sglb.switch.core.memory import Memory
from sglb.switch.core.rows import row_free
from sglb.switch.core.switch import inject, retire, set_live
from sglb.switch.core.wires import set_carrier, settle, unsent
from sglb.switch.errors import ConfigError
from sglb.switch.locking import locked
from sglb.switch.memory import Arena
from sglb.switch.pktgen import PacketGenerator, TimerApp
from sglb.switch.ports import DropReason
from sglb.switch.pre import CloneSession
from sglb.switch.switch import Switch

if TYPE_CHECKING:
    from sglb.p4.compiler import CompiledProgram

#: DropReason by its number, from 1 on.
_REASONS: Final = tuple(DropReason)
_DIGEST_WORDS: Final = 4096
_WORD: Final = (1 << 64) - 1


class CoreSwitch:
    """A switch's link to its node; made by `bind`. Implements `sglb.switch.switch.Core`."""

    def __init__(self, memory: Memory, node: int, switch: Switch) -> None:
        self.memory = memory
        self.node = node
        self.switch = switch
        self.lock = switch.lock
        self._native: NativeProgram | None = None
        self._machine: npt.NDArray[np.int64] | None = None
        self._digests = Arena().take(8 * _DIGEST_WORDS).view(np.int64)
        world = memory.world
        self._record = int(world.w[m.NODES_AT]) + node * m.NODE_WORDS
        self._ports = {n: memory.port(node, n) for n in switch.ports}
        self._groups: set[int] = set()
        region = memory.sizes.copies
        self._copies = _Copies(node * region, region)

    # --- program ---

    def retired(self) -> None:
        """The program is about to be replaced, or to go: what it had under way is lost."""
        if self._native is not None:
            retire(self.memory.world, self.node, self.switch.clock.now_ps)
        self._native = self._machine = None
        self.memory.world.w[self._record + m.N_PROGRAM] = -1

    def loaded(self) -> None:
        """A program was loaded, which fits (see `check`)."""
        state = self.switch.state
        native = compile_native(state.program.ir)
        machine = state.machine
        machine[abi.DIGEST_BUFFER] = self._digests.ctypes.data
        machine[abi.DIGEST_CAPACITY] = _DIGEST_WORDS
        machine[abi.DIGEST_USED] = machine[abi.DIGEST_LOST] = 0
        self._native, self._machine = native, machine
        w = self.memory.world.w
        w[self._record + m.N_MACHINE] = machine.ctypes.data
        w[self._record + m.N_PROGRAM] = self._program(native)

    def check(self, program: CompiledProgram) -> None:
        """Raises `ConfigError` when the fabric's memory is too small for a program."""
        native, w = compile_native(program.ir), self.memory.world.w
        bound = native.max_parse_bytes
        if (
            abi.FRAME_BYTE + native.frame_bytes > w[m.ROW_DATA]
            or native.max_header_bytes > w[m.OTHER_SCRATCH] - w[m.SCRATCH]
            or (_WORD >> 24 if bound is None else bound) > w[m.PARSE_BYTES]
        ):
            raise ConfigError(
                f"switch {self.switch.name}: the program needs rows of {native.frame_bytes} bytes, "
                f"{native.max_header_bytes} bytes of headers and {bound} parsed bytes, more than the "
                f"fabric's memory was laid out for"
            )

    def _program(self, native: NativeProgram) -> int:
        """Number of the record of a program's entry points, shared by the switches that run it.

        There are as many records as switches, so there is one that no other switch uses.
        """
        w, addresses = self.memory.world.w, native.addresses
        switches = int(w[m.SWITCHES])
        nodes = w[w[m.NODES_AT] :][: switches * m.NODE_WORDS].reshape(switches, m.NODE_WORDS)
        used = {int(number) for number in nodes[:, m.N_PROGRAM] if number >= 0}
        for number in used:
            at = int(w[m.PROGRAMS_AT]) + number * m.PROGRAM_WORDS
            if w[at + m.F_INGRESS] == addresses["p4_ingress_pass"]:
                return number
        number = min(set(range(switches)) - used)
        at = int(w[m.PROGRAMS_AT]) + number * m.PROGRAM_WORDS
        w[at + m.F_EGRESS] = addresses["p4_egress_pass"]
        w[at + m.F_PARSE] = addresses["p4_parse_pass"]
        w[at + m.F_CLEAR] = addresses["p4_clear_metadata"]
        w[at + m.F_PRESERVE] = addresses["p4_preserve"]
        w[at + m.F_FRAME_BYTES] = native.frame_bytes
        w[at + m.F_STATE_LINES] = -(-lay.state_words(native.ir) * lay.WORD // abi.ROW_ALIGN)
        w[at + m.F_INGRESS] = addresses["p4_ingress_pass"]
        return number

    # --- ports ---

    def carrier(self, number: int, up: bool) -> None:
        """The link at a port was cut or came back, now; the port's own direction only."""
        set_carrier(self.memory.world, self._ports[number], up, self.switch.clock.now_ps)

    def detected(self, number: int, live: bool) -> None:
        """The switch knows it now: the queues of a port that went down are flushed."""
        set_live(self.memory.world, self._ports[number], live, self.switch.clock.now_ps)

    def rate(self, number: int, rate_bps: int | None) -> None:
        """A port's rate, from its next frame on."""
        w = self.memory.world.w
        w[w[m.PORTS_AT] + self._ports[number] * m.PORT_WORDS + m.P_RATE] = rate_bps or 0

    # --- frames ---

    def receive(self, number: int, data: bytes) -> None:
        """A whole frame comes in by a port, now; by the CPU port it is the control plane's."""
        self._inject(self._ports[number], data)

    def event(self, data: bytes) -> None:
        """A frame that the switch made itself enters, now."""
        self._inject(m.FROM_EVENT, data)

    def _inject(self, origin: int, data: bytes) -> None:
        raw = np.frombuffer(data, dtype=np.uint8)
        address = raw.__array_interface__["data"][0] if data else 0
        now = self.switch.clock.now_ps
        if not inject(self.memory.world, self.node, origin, address, len(data), now):
            raise ConfigError(
                f"switch {self.switch.name}: no room for a frame of {len(data)} bytes; the fabric "
                f"has {self.memory.sizes.rows} packets and blobs of {self.memory.sizes.blob_bytes} bytes"
            )

    @locked
    def take_digests(self) -> None:
        """Gives the digests that the data plane left (HALT_DIGEST) to the switch's digest engine."""
        machine, native = self._machine, self._native
        if machine is None or native is None or not machine[abi.DIGEST_USED]:
            return
        words = [int(word) & _WORD for word in self._digests[: machine[abi.DIGEST_USED]]]
        machine[abi.DIGEST_USED] = 0
        ids = self.switch.state.digest_ids
        for instance, values in read_digests(native, words):
            self.switch.digests.push(ids[instance], values)

    # --- replication ---

    def replication_changed(self, is_group: bool, number: int | None) -> None:
        """Copies the replication engine's groups or sessions (or one group) to the fabric's memory."""
        if not is_group:
            self._write_sessions(number)
        elif number is not None:
            self._write_group(number)
        else:
            for known in sorted(self._groups | {g.id for g in self.switch.replication.groups()}):
                self._write_group(known)

    def _write_group(self, number: int) -> None:
        w = self.memory.world.w
        if number >= w[m.MCAST_GROUPS]:
            return  # mcast_grp cannot name it
        copies = self.switch.replication.copies(number) or ()
        at = int(w[self._record + m.N_MCAST]) + number * m.MCAST_WORDS
        w[at + m.M_COUNT] = 0
        w[at + m.M_FIRST] = self._place(("group", number), copies)
        w[at + m.M_COUNT] = len(copies)
        if copies:
            self._groups.add(number)
        else:
            self._groups.discard(number)

    def _write_sessions(self, number: int | None) -> None:
        """Writes a session, or all: also when one is gone, as others may stand behind its slot."""
        w, replication = self.memory.world.w, self.switch.replication
        slots = int(w[m.CLONE_SESSIONS])
        known = replication.sessions()
        if 2 * len(known) > slots:
            raise ConfigError(
                f"switch {self.switch.name}: a native switch has room for {slots // 2} clone sessions"
            )
        changed = None if number is None else replication.session(number)
        if changed is not None:
            self._write_session(changed)
            return
        first = int(w[self._record + m.N_CLONES])
        w[first : first + slots * m.CLONE_WORDS] = 0
        self._copies.drop_sessions()
        for session in known:
            self._write_session(session)

    def _write_session(self, session: CloneSession) -> None:
        w = self.memory.world.w
        slots, first = int(w[m.CLONE_SESSIONS]), int(w[self._record + m.N_CLONES])
        at = first + session.id % slots * m.CLONE_WORDS
        while w[at + m.S_ID] not in (0, session.id + 1):
            at += m.CLONE_WORDS
            if at == first + slots * m.CLONE_WORDS:
                at = first
        copies = self.switch.replication.session_copies(session.id)
        w[at + m.S_FIRST] = self._place(("session", session.id), copies)
        w[at + m.S_COUNT] = len(copies)
        w[at + m.S_CLASS] = session.class_of_service
        w[at + m.S_LENGTH] = session.packet_length_bytes
        w[at + m.S_ID] = session.id + 1

    def _place(self, owner: tuple[str, int], copies: tuple[tuple[int, int], ...]) -> int:
        """Writes copies to memory; the number of the first."""
        place = self._copies.place(owner, len(copies))
        if place is None:
            raise ConfigError(
                f"switch {self.switch.name}: its multicast groups and clone sessions have more than "
                f"{self.memory.sizes.copies} copies in all"
            )
        w = self.memory.world.w
        at = int(w[m.COPIES_AT]) + place * m.COPY_WORDS
        for port, instance in copies:
            w[at], w[at + 1] = port, instance
            at += m.COPY_WORDS
        return place

    # --- counters ---

    @locked
    def collect(self) -> None:
        """Brings the counters of the switch and of its ports up to its clock's time."""
        world, now = self.memory.world, self.switch.clock.now_ps
        settle(world, now)
        w = world.w
        total = self._drops(int(w[self._record + m.N_DROPS]))
        for number, port in self._ports.items():
            record = int(w[m.PORTS_AT]) + port * m.PORT_WORDS
            counters = self.switch.ports[number].counters
            packets, size = unsent(world, port, now)
            counters.rx_packets = int(w[record + m.P_RX_PACKETS])
            counters.rx_bytes = int(w[record + m.P_RX_BYTES])
            counters.tx_packets = int(w[record + m.P_TX_PACKETS]) - packets
            counters.tx_bytes = int(w[record + m.P_TX_BYTES]) - size
            counters.drops = self._drops(int(w[record + m.P_DROPS]))
            total += counters.drops
            self.switch.ports[number].queued = int(w[record + m.P_QUEUED])
            for cls, queue in enumerate(self.switch.ports[number].queues):
                at = int(w[m.QUEUES_AT]) + (port * m.CLASSES + cls) * m.QUEUE_WORDS
                queue.bytes = int(w[at + m.Q_BYTES])
                queue.max_bytes = int(w[at + m.Q_MAX_BYTES])
                queue.max_packets = int(w[at + m.Q_MAX_PACKETS])
        self.switch.drops.clear()
        self.switch.drops.update(total)

    def _drops(self, at: int) -> Counter[DropReason]:
        counts = self.memory.world.w[at + 1 : at + 1 + len(_REASONS)]
        return Counter({r: int(n) for r, n in zip(_REASONS, counts, strict=True) if n})


class _Copies:
    """Room for copies in a switch's part of COPIES, handed out one after the other."""

    def __init__(self, first: int, size: int) -> None:
        self._first = first
        self._size = size
        self._taken: dict[tuple[str, int], tuple[int, int]] = {}

    def drop_sessions(self) -> None:
        """All sessions' room is free."""
        self._taken = {k: v for k, v in self._taken.items() if k[0] == "group"}

    def place(self, owner: tuple[str, int], count: int) -> int | None:
        """Room for `count` copies in place of what the owner had; None when there is not as much."""
        self._taken.pop(owner, None)
        at = self._first
        for start, size in sorted(self._taken.values()):
            if start - at >= count:
                break
            at = start + size
        if at + count > self._first + self._size:
            return None
        if count:
            self._taken[owner] = (at, count)
        return at


class CoreGenerator(PacketGenerator):
    """The packet generator of a switch whose timers run in its node."""

    def __init__(self, core: CoreSwitch) -> None:
        switch = core.switch
        super().__init__(switch.clock, core.event, switch.config.event_ethertype)
        self._core = core
        self.lock = switch.lock

    def _at(self, app_id: int) -> int:
        w = self._core.memory.world.w
        record = w[m.NODES_AT] + self._core.node * m.NODE_WORDS
        return int(w[record + m.N_TIMERS]) + app_id * m.TIMER_WORDS

    @property
    def running(self) -> tuple[int, ...]:
        """Ids of the applications that are still to send."""
        w = self._core.memory.world.w
        return tuple(app for app in range(m.TIMERS) if w[self._at(app) + m.T_RUNS])

    @locked
    def start(self, app: TimerApp) -> None:
        """Starts an application, in place of one with the same id.

        Raises `ConfigError` for a payload longer than the fabric's memory was laid out for.
        """
        memory = self._core.memory
        w, at = memory.world.w, self._at(app.app_id)
        if len(app.payload) > w[at + m.T_ROOM]:
            raise ConfigError(
                f"packet generator: a payload of {len(app.payload)} bytes is longer than "
                f"{w[at + m.T_ROOM]}, what the native switch has room for"
            )
        w[at + m.T_PERIOD] = app.period_ps
        w[at + m.T_BATCH_PACKETS] = app.batch_packets
        w[at + m.T_GAP] = app.gap_ps
        w[at + m.T_BATCHES] = -1 if app.batches is None else app.batches
        w[at + m.T_PAYLOAD_BYTES] = len(app.payload)
        place = int(w[at + m.T_PAYLOAD])
        memory.world.b[place : place + len(app.payload)] = np.frombuffer(app.payload, np.uint8)
        now = self._core.switch.clock.now_ps
        start_timer(memory.world, self._core.node, app.app_id, now + app.start_ps)

    @locked
    def stop(self, app_id: int) -> None:
        """Stops an application; harmless when it is not running."""
        stop_timer(self._core.memory.world, self._core.node, app_id)


def bind(memory: Memory, node: int, switch: Switch) -> CoreSwitch:
    """Ties a switch to node number `node`; from now on the node is its data plane.

    Raises `ConfigError` when the switch has ports that the node lacks, or a program that finds no
    room.
    """
    core = CoreSwitch(memory, node, switch)
    switch.core = core
    switch.generator = CoreGenerator(core)
    switch.replication.on_change = core.replication_changed
    core.replication_changed(True, None)
    core.replication_changed(False, None)
    if switch.program is not None:
        core.check(switch.program)
        core.loaded()
    return core


def unbind(core: CoreSwitch) -> None:
    """Undoes `bind`: the switch's packets are lost, its timers stop, counters stay as they are."""
    core.collect()
    core.switch.generator.stop_all()
    core.retired()
    switch = core.switch
    switch.core = None
    switch.replication.on_change = None
    switch.generator = switch.new_generator()


def take_frames(memory: Memory) -> list[tuple[int, int, int, int, bytes]]:
    """The frames for Python (HALT_CPU), in order: (end_ps, start_ps, node, P4 port number, bytes).

    A frame is as long as it is, with zeros for what was not stored of it.
    """
    world = memory.world
    w, h = world.w, world.h
    found = []
    for number in range(int(w[m.CPU_USED])):
        record = int(w[m.CPU_AT]) + number * m.CPU_WORDS
        row = int(w[record + m.U_ROW])
        at = int(w[row + abi.DATA]) - world.address
        length, stored = int(h[row * 2 + abi.LENGTH]), int(h[row * 2 + abi.STORED])
        data = world.b[at : at + stored].tobytes().ljust(length, b"\0")
        node, port = memory.name(int(w[record + m.U_PORT]))
        found.append((int(w[record + m.U_TIME]), int(w[row + m.R_START]), node, port, data))
        row_free(world, row)
    w[m.CPU_USED] = 0
    w[m.HALT] &= ~m.HALT_CPU
    return found


def deliver(memory: Memory, cores: Mapping[int, CoreSwitch]) -> None:
    """Hands the frames for Python to `on_cpu` and `on_transmit` of their switches."""
    for end_ps, start_ps, node, port, data in take_frames(memory):
        switch = cores[node].switch
        if port == switch.config.cpu_port:
            if switch.on_cpu is not None:
                switch.on_cpu(data)
        elif switch.on_transmit is not None:
            switch.on_transmit(port, data, start_ps, end_ps)
