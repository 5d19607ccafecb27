"""The embedded switch: ports around a loaded P4 program, in the time of a scheduler.

Everything runs on one scheduler, one callback after the other: a control plane's write is complete
before the next packet, and nothing here may be called from another thread. The same code runs in
virtual and in real time.

Time of a packet: received -> parser and ingress run at once -> `ingress_latency_ps` -> queue -> egress
and deparser run as it leaves the queue -> `egress_latency_ps` -> serialisation at the port's rate ->
`on_transmit`. Propagation is the link's business.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from threading import RLock
from typing import TYPE_CHECKING, Final, Literal, Protocol, cast, get_args

from sglb.p4.hashing import CrcModel
from sglb.p4.interp import Interpreter
from sglb.p4.native.engine import NativeEngine
from sglb.p4.native.program import compile_native
from sglb.p4.random_stream import RandomStream
from sglb.p4.runtime import Engine
from sglb.switch.clock import Scheduler
from sglb.switch.config import SwitchConfig
from sglb.switch.digests import DigestEngine
from sglb.switch.errors import ConfigError, EntryExists, NoSuchEntry
from sglb.switch.idle import IdleWatcher
from sglb.switch.locking import SwitchLock, locked
from sglb.switch.packet import Packet
from sglb.switch.pipeline import Pipeline
from sglb.switch.pktgen import KIND_PORT, PacketGenerator, TimerApp, event_frame
from sglb.switch.ports import Drop, DropReason, Port
from sglb.switch.pre import ReplicationEngine
from sglb.switch.state import ProgramState
from sglb.switch.tables import Table, TableEntry
from sglb.switch.trace import TraceRecorder
from sglb.switch.traffic import TrafficManager

if TYPE_CHECKING:
    from sglb.p4.compiler import CompiledProgram


class Core(Protocol):
    """A data plane in memory that stands in for the pipeline and the traffic manager here.

    Everything is called when it happens (see `sglb.switch.core.bind`).
    """

    def check(self, program: CompiledProgram) -> None:
        """Raises `ConfigError` for a program that has no room here."""

    def retired(self) -> None:
        """The loaded program goes."""

    def loaded(self) -> None:
        """A program was loaded."""

    def carrier(self, number: int, up: bool) -> None:
        """A port's link was cut or came back."""

    def detected(self, number: int, live: bool) -> None:
        """The switch knows of it."""

    def rate(self, number: int, rate_bps: int | None) -> None:
        """A port has another rate."""

    def receive(self, number: int, data: bytes) -> None:
        """A frame comes in by a port."""

    def event(self, data: bytes) -> None:
        """A frame that the switch made enters."""


#: What runs the program: native code, or the interpreter that is its reference.
EngineName = Literal["native", "interpreter"]

#: The environment variable that says which, where a caller doesn't.
ENGINE_VARIABLE: Final = "SGLB_ENGINE"
_DEFAULT_ENGINE: Final[EngineName] = "interpreter"


def default_engine() -> EngineName:
    """The engine that `SGLB_ENGINE` names. Raises `ConfigError` for one that there is not."""
    name = os.environ.get(ENGINE_VARIABLE, _DEFAULT_ENGINE)
    if name not in get_args(EngineName):
        known = " or ".join(get_args(EngineName))
        raise ConfigError(f"{ENGINE_VARIABLE} must be {known}, not {name!r}")
    return cast(EngineName, name)


class Switch:
    """One switch.

    `program` may be None: packets are dropped until `load`. `rng` feeds the program's `random` and
    hash algorithm of that name; give each switch its own seeded stream. `engine` is what runs the
    program, None for `default_engine()`; packets with a trace always go through the interpreter, on
    the same state. `lock` (one of its own if not given) is held during each write to that state: hold
    it while packets run in another thread.

    Callbacks, all optional:
    `on_transmit(port, data, start_ps, end_ps)` when the last bit of a frame has left, at `end_ps`;
    `on_cpu(data)` for a frame sent to the CPU port;
    `on_drop(drop)` for each lost packet;
    `on_port_event(port, up)` when a change of a port's state has been detected;
    `on_idle(table, entries)` for entries unused for their idle timeout;
    `digests.on_list(list)` for digests.

    `core`, when set, is the data plane in place of the one here.
    """

    def __init__(
        self,
        program: CompiledProgram | None,
        config: SwitchConfig,
        clock: Scheduler,
        *,
        name: str = "switch",
        device_id: int = 1,
        rng: RandomStream,
        engine: EngineName | None = None,
        lock: SwitchLock | None = None,
    ) -> None:
        self.lock: SwitchLock = lock or RLock()
        self.engine = engine or default_engine()
        self.name = name
        self.device_id = device_id
        self.config = config
        self.clock = clock
        self.ports: dict[int, Port] = {}
        self.drops: Counter[DropReason] = Counter()
        self.on_transmit: Callable[[int, bytes, int, int], None] | None = None
        self.on_cpu: Callable[[bytes], None] | None = None
        self.on_drop: Callable[[Drop], None] | None = None
        self.on_port_event: Callable[[int, bool], None] | None = None
        self.on_idle: Callable[[Table, list[TableEntry]], None] | None = None
        self.core: Core | None = None
        self.replication = ReplicationEngine(self.port_live)
        self.digests = DigestEngine(clock)
        self.generator = self.new_generator()
        self._rng = rng
        self._traffic = TrafficManager(clock, config)
        self._idle = IdleWatcher(clock, self._notify_idle)
        self._recorder: TraceRecorder | None = None
        self._state: ProgramState | None = None
        self._pipeline: Pipeline | None = None
        self._port_events = 0
        self.add_port(config.cpu_port, None)
        if program is not None:
            self.load(program)

    # --- program ---

    @property
    def state(self) -> ProgramState:
        """Tables, registers and the rest of the loaded program. Raises `ConfigError` without one."""
        if self._state is None:
            raise ConfigError(f"switch {self.name} has no program loaded")
        return self._state

    @property
    def program(self) -> CompiledProgram | None:
        """The loaded program, None without one."""
        return None if self._state is None else self._state.program

    def new_state(self, program: CompiledProgram) -> ProgramState:
        """State for a program, ready to be filled before `load`.

        Raises a `SwitchError` when the program's own entries do not fit its tables, or it doesn't fit
        the switch.
        """
        if self.core is not None:
            self.core.check(program)
        return ProgramState(
            program,
            self.clock,
            self.port_live,
            self._rng,
            drop_port=self.config.drop_port,
            lock=self.lock,
        )

    def load(self, program: CompiledProgram, state: ProgramState | None = None) -> None:
        """Loads a program, with fresh state or one made by `new_state`.

        What the old program held is gone and its packets are dropped. Raises as `new_state`, and
        keeps the old program then.
        """
        if self.engine == "native":
            compile_native(program.ir)  # takes a while: packets in another thread go on meanwhile
        self._load(program, state)

    @locked
    def _load(self, program: CompiledProgram, state: ProgramState | None) -> None:
        if state is None:
            state = self.new_state(program)
        else:
            for profile in state.profiles.values():
                for number in self.ports:  # they may have changed since it was made
                    profile.port_changed(number)
        pipeline = Pipeline(
            program.ir,
            self._engine_maker(program, state),
            config=self.config,
            clock=self.clock,
            ports=self.ports,
            traffic=self._traffic,
            replication=self.replication,
            digests=self.digests,
            digest_ids=state.digest_ids,
            lose=self._lose,
            transmit=self._transmitted,
        )
        self._retire()
        self.digests.load(frozenset(state.digest_ids.values()))
        self._idle.watch(state.tables)
        self._state = state
        state.activate()
        self._pipeline = self._traffic.egress = pipeline
        pipeline.recorder = self._recorder
        if self.core is not None:
            self.core.loaded()

    @locked
    def unload(self) -> None:
        """The switch stops, as one without power: no program, no timers; packets are lost.

        Its ports keep their state. `load` makes it start anew.
        """
        self.generator.stop_all()
        self._retire()
        self.digests.load(frozenset())
        self._idle.watch(())
        self._state = self._pipeline = None  # the traffic manager still loses what is under way

    def _retire(self) -> None:
        if self.core is not None:
            self.core.retired()
        if self._pipeline is not None:
            self._pipeline.retired = True
            for port in self.ports.values():
                self._traffic.flush(port, DropReason.RELOADED)
        self.replication.reset()

    def _engine_maker(self, program: CompiledProgram, state: ProgramState) -> Callable[[], Engine]:
        """What makes the engine; raises now what making it would."""

        def reference() -> Interpreter:
            return Interpreter(program.ir, state.pipeline, self._rng, state.hashes)

        if self.engine == "interpreter":
            interpreter = reference()
            return lambda: interpreter
        native = compile_native(program.ir)
        return lambda: NativeEngine(native, state.machine, reference())

    def set_custom_crc(self, name: str, model: CrcModel) -> None:
        """Gives `crc16_custom` or `crc32_custom` other parameters, for `hash` and selectors.

        A later `load` starts with BMv2's parameters again. Raises `ConfigError` for another name, a
        model of another width, or without a program.
        """
        try:
            self.state.set_custom_crc(name, model)
        except ValueError as error:
            raise ConfigError(f"switch {self.name}: {error}") from None

    @property
    def recorder(self) -> TraceRecorder | None:
        """Where packet traces go; None (the default) traces nothing and costs nothing."""
        return self._recorder

    @recorder.setter
    def recorder(self, recorder: TraceRecorder | None) -> None:
        self._recorder = recorder
        if self._pipeline is not None:
            self._pipeline.recorder = recorder

    # --- ports ---

    def add_port(self, number: int, rate_bps: int | None) -> Port:
        """Adds a port that is up. `rate_bps` None sends in no time.

        Raises `EntryExists`, or `ConfigError` for the event port or a number beyond 9 bits.
        """
        if number in self.ports:
            raise EntryExists(f"switch {self.name} has a port {number} already")
        if number == self.config.event_port or not 0 <= number < 512:
            raise ConfigError(
                f"switch {self.name}: port {number} is outside 0..511 or the internal event port "
                f"({self.config.event_port})"
            )
        port = self.ports[number] = Port(number, rate_bps, self.config.queues)
        return port

    def port(self, number: int) -> Port:
        """The port. Raises `NoSuchEntry`."""
        port = self.ports.get(number)
        if port is None:
            raise NoSuchEntry(f"switch {self.name} has no port {number}")
        return port

    def port_live(self, number: int) -> bool:
        """Whether the port exists and is up as far as the switch knows."""
        port = self.ports.get(number)
        return port is not None and port.live

    @locked
    def set_port_rate(self, number: int, rate_bps: int | None) -> None:
        """Changes a port's rate, from its next frame on."""
        self.port(number).set_rate(rate_bps)
        if self.core is not None:
            self.core.rate(number, rate_bps)

    @locked
    def set_port_state(self, number: int, up: bool) -> None:
        """The link at a port is cut or comes back, now.

        From now on frames that are between queue and far end of the wire, or come in, are lost. The
        switch knows after the detection delay: then watch ports and backup replicas react, the queue
        of a port that went down is flushed, the port-event packet enters ingress (if configured) and
        `on_port_event` is called, in this order. A change undone before it was detected is never
        noticed.
        """
        port = self.port(number)
        if port.up == up:
            return
        port.up = up
        if not up:
            port.cuts += 1
        if self.core is not None:
            self.core.carrier(number, up)
        if port.detection is not None:
            port.detection.cancel()
            port.detection = None
        if port.live != up:
            config = self.config
            delay = config.port_up_detection_ps if up else config.port_down_detection_ps
            port.detection = self.clock.call_later(delay, self._detected, port)

    @locked
    def _detected(self, port: Port) -> None:
        port.detection = None
        port.live = up = port.up
        if self._state is not None:
            for profile in self._state.profiles.values():
                profile.port_changed(port.number)
        self.replication.ports_changed()
        if self.core is not None:
            self.core.detected(port.number, up)
        if not up:
            self._traffic.flush(port, DropReason.PORT_DOWN)
        if self.config.port_events and self._pipeline is not None:
            config = self.config
            frame = event_frame(
                config.event_ethertype,
                config.event_app_id,
                KIND_PORT,
                up,
                port.number,
                self._port_events,
            )
            self._port_events += 1
            self._inject_event(frame)
        if self.on_port_event is not None:
            self.on_port_event(port.number, up)

    # --- packets in ---

    @locked
    def receive(self, port_number: int, data: bytes) -> None:
        """A whole frame has arrived on a port. Raises `NoSuchEntry` for an unknown port."""
        port = self.port(port_number)
        if self.core is not None:
            self.core.receive(port_number, data)
            return
        if not (port.up and port.live):
            self._count_drop(port, DropReason.RX_PORT_DOWN, port_number, data)
            return
        port.counters.rx_packets += 1
        port.counters.rx_bytes += len(data)
        self._enter(port_number, data)

    def packet_out(self, data: bytes) -> None:
        """A frame from the control plane: enters ingress from the CPU port."""
        self.receive(self.config.cpu_port, data)

    def start_generator(self, app: TimerApp) -> None:
        """Starts a timer of the packet generator (see `sglb.switch.pktgen`)."""
        self.generator.start(app)

    def stop_generator(self, app_id: int) -> None:
        """Stops a timer; harmless when it is not running."""
        self.generator.stop(app_id)

    def new_generator(self) -> PacketGenerator:
        """A packet generator whose frames enter here."""
        return PacketGenerator(self.clock, self._inject_event, self.config.event_ethertype)

    def _inject_event(self, frame: bytes) -> None:
        if self.core is not None:
            self.core.event(frame)
            return
        self._enter(self.config.event_port, frame)

    def _enter(self, port_number: int, data: bytes) -> None:
        if self._pipeline is None:
            self._count_drop(None, DropReason.NO_PROGRAM, port_number, data)
            return
        trace = None
        if self._recorder is not None:
            trace = self._recorder.begin(self.name, port_number, data, self.clock.now_ps)
        self._pipeline.receive(data, port_number, trace)

    # --- packets out ---

    def _transmitted(self, port: Port, data: bytes, start_ps: int, end_ps: int) -> None:
        port.counters.tx_packets += 1
        port.counters.tx_bytes += len(data)
        if port.number == self.config.cpu_port:
            if self.on_cpu is not None:
                self.on_cpu(data)
        elif self.on_transmit is not None:
            self.on_transmit(port.number, data, start_ps, end_ps)

    def _lose(self, packet: Packet, port: Port | None, reason: DropReason, data: bytes) -> None:
        self._count_drop(port, reason, packet.ingress_port, data, packet.is_clone)

    def _count_drop(
        self,
        port: Port | None,
        reason: DropReason,
        ingress_port: int,
        data: bytes,
        is_clone: bool = False,
    ) -> None:
        self.drops[reason] += 1
        if port is not None:
            port.counters.drops[reason] += 1
        if self.on_drop is not None:
            number = None if port is None else port.number
            now_ps = self.clock.now_ps
            self.on_drop(Drop(now_ps, reason, number, ingress_port, data, is_clone))

    def _notify_idle(self, table: Table, entries: list[TableEntry]) -> None:
        if self.on_idle is not None:
            self.on_idle(table, entries)
