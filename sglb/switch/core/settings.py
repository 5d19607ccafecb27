"""Settings of the traffic manager, checked, and how they get into a fabric's memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from sglb.switch.config import SwitchConfig
from sglb.switch.core import model as m
from sglb.switch.core.buffer import class_at, group_at, node_at, port_at, recount
from sglb.switch.core.pfc import LEAST_RATE_BPS, LONGEST_QUANTA, pause_ps
from sglb.switch.core.world import World
from sglb.switch.errors import ConfigError

_LARGEST: Final = 1 << 40  #: of anything in bytes: products with alpha stay within 64 bits
_FINEST: Final = 1 << 16  #: of alpha's numerator and denominator


@dataclass(frozen=True, slots=True)
class ClassSettings:
    """One class at all ports of a switch; sizes in bytes of frames without FCS.

    `strict` classes are served first, the others share by `quantum_bytes` a round. `alpha` None: no
    dynamic threshold. `reserved_bytes` each queue has of its own (in a `lossless` class each ingress
    priority group). `limit_bytes` and `limit_packets` bound a queue, not what came in by a port in a
    lossless class. `xoff_bytes` of a lossless class 0: dynamic by alpha. `pause_quanta` is what a
    pause frame asks for. `watchdog_ps` 0: no watchdog.
    """

    strict: bool = True
    quantum_bytes: int = 0
    lossless: bool = False
    alpha: Fraction | None = None
    reserved_bytes: int = 0
    limit_bytes: int | None = None
    limit_packets: int | None = None
    xoff_bytes: int = 0
    xon_offset_bytes: int = 0
    pause_quanta: int = LONGEST_QUANTA
    watchdog_ps: int = 0
    restore_ps: int = 0
    watchdog_drops: bool = True

    def words(self) -> dict[int, int]:
        """The class's record."""
        alpha = self.alpha
        return {
            m.C_STRICT: self.strict,
            m.C_QUANTUM: self.quantum_bytes,
            m.C_LOSSLESS: self.lossless,
            m.C_ALPHA_NUM: 0 if alpha is None else alpha.numerator,
            m.C_ALPHA_DEN: 0 if alpha is None else alpha.denominator,
            m.C_RESERVED: self.reserved_bytes,
            m.C_XOFF: self.xoff_bytes,
            m.C_XON_OFFSET: self.xon_offset_bytes,
            m.C_LIMIT: -1 if self.limit_bytes is None else self.limit_bytes,
            m.C_LIMIT_PACKETS: -1 if self.limit_packets is None else self.limit_packets,
            m.C_PAUSE_QUANTA: self.pause_quanta,
            m.C_WATCH_PS: self.watchdog_ps,
            m.C_RESTORE_PS: self.restore_ps,
            m.C_WATCH_DROP: self.watchdog_drops,
        }


@dataclass(frozen=True, slots=True)
class TrafficSettings:
    """A switch's classes, by number, and its shared pool (0: none).

    Reservations and headroom come beside the pool. Raises `ConfigError` for what cannot work.
    """

    classes: tuple[ClassSettings, ...] = field(default=(ClassSettings(),) * m.CLASSES)
    shared_bytes: int = 0

    def __post_init__(self) -> None:
        if len(self.classes) != m.CLASSES:
            raise ConfigError(f"a traffic manager has {m.CLASSES} classes, got {len(self.classes)}")
        if not 0 <= self.shared_bytes <= _LARGEST:
            raise ConfigError(f"the shared pool must have 0 to 2^40 bytes, got {self.shared_bytes}")
        for number, one in enumerate(self.classes):
            self._check(f"class {number}", one)

    def _check(self, name: str, one: ClassSettings) -> None:
        for key in one.__dataclass_fields__:
            value = getattr(one, key)
            if isinstance(value, int) and not 0 <= value <= (
                1 << 62 if key.endswith("_ps") else _LARGEST
            ):
                raise ConfigError(f"{name}: {key} is negative or too large: {value}")
        if not one.strict and one.quantum_bytes < 1:
            raise ConfigError(f"{name} shares by rounds: quantum_bytes must be at least 1")
        alpha = one.alpha
        if alpha is not None and not (
            0 < alpha.numerator <= _FINEST and alpha.denominator <= _FINEST
        ):
            raise ConfigError(f"{name}: alpha must be above 0, as a ratio of 16-bit numbers")
        if one.watchdog_ps and not one.restore_ps:
            raise ConfigError(f"{name}: a watchdog needs restore_ps above 0")
        if not one.lossless:
            return
        if not 1 <= one.pause_quanta <= LONGEST_QUANTA:
            raise ConfigError(f"{name}: pause_quanta must be 1 to 65535, got {one.pause_quanta}")
        if not one.xoff_bytes and (alpha is None or not self.shared_bytes):
            raise ConfigError(
                f"{name} is lossless: give xoff_bytes, or alpha and a shared pool to take it from"
            )

    @classmethod
    def of_config(cls, config: SwitchConfig) -> TrafficSettings:
        """What `config` says: strict classes with a limit each, no shared pool, no PFC."""
        one = ClassSettings(
            limit_bytes=config.queue_limit_bytes, limit_packets=config.queue_limit_packets
        )
        return cls((one,) * m.CLASSES)


def write_settings(world: World, node: int, record: int, settings: TrafficSettings) -> None:
    """Gives a node its settings, now: `record` is the one in CONFIG that they go to.

    Nodes of equal settings may share a record; then call this for each of them. Packets that wait
    stay, and are counted anew where reservations have changed.
    """
    w = world.w
    node_record = node_at(world, node)
    w[node_record + m.N_TM_CONFIG] = record
    w[node_record + m.N_SHARED_BYTES] = settings.shared_bytes
    masks = 0
    for number, one in enumerate(settings.classes):
        place = class_at(world, node_record, number)
        for word, value in one.words().items():
            w[place + word] = value
        masks |= one.strict << number | (one.watchdog_ps > 0) << m.CLASSES + number
        masks |= one.lossless << 2 * m.CLASSES + number
    w[node_record + m.N_CLASSES] = masks
    recount(world, node)


def set_headroom(world: World, port: int, cls: int, headroom_bytes: int) -> None:
    """Sets the headroom of a port's priority group. Raises `ConfigError` for a port without pauses."""
    rate = world.w[port_at(world, port) + m.P_RATE]
    if rate < LEAST_RATE_BPS:
        raise ConfigError(
            f"a port with a lossless class needs a rate of at least 1 Mbit/s, got {rate} bit/s"
        )
    if not 0 <= headroom_bytes <= _LARGEST:
        raise ConfigError(f"headroom must be 0 to 2^40 bytes, got {headroom_bytes}")
    world.w[group_at(world, port, cls) + m.G_ROOM] = headroom_bytes


def retune_headroom(
    world: World, node: int, ports: Sequence[int], cls: int, headroom_bytes: int
) -> None:
    """Changes a class's headroom on a running node's ports; the shared pool gives or takes the rest.

    Raises `ConfigError` when the pool can't give so much.
    """
    groups = [group_at(world, port, cls) for port in ports]
    record = node_at(world, node)
    before = sum(int(world.w[group + m.G_ROOM]) for group in groups)
    pool = int(world.w[record + m.N_SHARED_BYTES]) - (headroom_bytes * len(ports) - before)
    if pool <= 0:
        raise ConfigError(
            f"headroom of {headroom_bytes} bytes for each of {len(ports)} ports leaves no shared pool"
        )
    for port in ports:
        set_headroom(world, port, cls, headroom_bytes)
    world.w[record + m.N_SHARED_BYTES] = pool


def set_response(world: World, port: int, quanta: int) -> None:
    """Sets how long after a pause frame's last bit a port obeys, in 512 bit times at its rate now."""
    record = port_at(world, port)
    world.w[record + m.P_RESPONSE] = pause_ps(world.w[record + m.P_RATE], quanta)


def retune_class(world: World, node: int, cls: int, alpha: Fraction, xon_offset_bytes: int) -> None:
    """Changes what pauses a class of a running node: its dynamic threshold, and when it resumes.

    Nodes that share a record of settings change together. What waits stays, and is judged by the new
    values from the next packet on. Raises `ConfigError` for values that can't be.
    """
    checked = ClassSettings(alpha=alpha, xon_offset_bytes=xon_offset_bytes)
    TrafficSettings((checked,) * m.CLASSES)
    place = class_at(world, node_at(world, node), cls)
    for word in (m.C_ALPHA_NUM, m.C_ALPHA_DEN, m.C_XON_OFFSET):
        world.w[place + word] = checked.words()[word]
