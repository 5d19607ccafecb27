"""Keys of the lossless fabric: shared buffer, classes, PFC, ECN; and DCQCN in the hosts.

All of it is off by default: then each queue of a port has `switch.queue_bytes` of its own, nothing
is paused, and hosts send by window alone.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from sglb.fabric.schema_types import (
    Bytes,
    BytesOrNone,
    Model,
    PositiveTime,
    Probability,
    Time,
    TrafficClass,
    word_or,
)

_WORD, _NUMBER, _CHOICE = word_or("a number")
Alpha = Annotated[float, Field(gt=0, le=256)]
#: SONiC's spelling of alpha: 2 to the power of this.
DynamicTh = Annotated[int, Field(ge=-8, le=8)]


class Ecn(Model):
    """Marking by queue depth: never below kmin, always above kmax, up to pmax in between.

    The defaults are those of ConWeave's simulations; HPCC's use them at 25 Gbit/s and scale both depths
    with the rate: 400 KB and 1.6 MB at 100 Gbit/s.
    """

    kmin_bytes: Bytes = 100_000
    kmax_bytes: Bytes = 400_000
    pmax: Probability = 0.2

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.kmin_bytes > self.kmax_bytes:
            raise ValueError(
                f"kmin_bytes ({self.kmin_bytes}) must not exceed kmax_bytes ({self.kmax_bytes})"
            )
        return self


class ClassBlock(Model):
    """One traffic class: the queue of that number on every port, and its PFC priority.

    A packet's class is the top three bits of its DSCP (`transport.traffic_class` sets them). Classes
    that are not listed are lossy and `strict`. Strict classes are served first, the largest number
    before the others; `dwrr` ones share what is left in proportion to `weight`. The values left out
    are those of `switch.buffer` and `switch.ecn`.
    """

    number: TrafficClass = Field(alias="class")
    lossless: bool = False
    scheduling: Literal["strict", "dwrr"] = "strict"
    weight: Annotated[int, Field(ge=1, le=255)] | None = None
    alpha: Alpha | None = None
    dynamic_th: DynamicTh | None = None
    reserved_bytes: BytesOrNone | None = None
    ecn: Ecn | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.weight is not None and self.scheduling == "strict":
            raise ValueError("weight goes with scheduling: dwrr")
        _one_alpha(self.alpha, self.dynamic_th)
        return self


class BufferBlock(Model):
    """The shared buffer of every switch.

    `total_bytes`: all of it, headroom and reservations included; left out, there is no shared buffer
    and each queue has `switch.queue_bytes`. What a lossy queue, or the packets of a lossless class that
    came in by one port, may take of the shared part is `alpha` x what is still free there (Choudhury
    and Hahne, ToN 1998); `dynamic_th` n says alpha = 2^n as SONiC does. The default of 1/8 is that of
    HPCC's simulation. `reserved_bytes` a queue (or a port's lossless class) are free of that.
    """

    total_bytes: Bytes | None = None
    alpha: Alpha | None = None
    dynamic_th: DynamicTh | None = None
    reserved_bytes: BytesOrNone = 0
    cell_bytes: Annotated[int, Field(ge=1, le=4_096)] = 80
    classes: list[ClassBlock] = Field(default_factory=list)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        _one_alpha(self.alpha, self.dynamic_th)
        numbers = [c.number for c in self.classes]
        for i, number in enumerate(numbers):
            if number in numbers[:i]:
                raise ValueError(f"class {number} is listed twice")
        if self.total_bytes is None:
            shared = [k for k in ("alpha", "dynamic_th") if getattr(self, k) is not None]
            if shared or self.reserved_bytes or any(c.lossless for c in self.classes):
                what = shared[0] if shared else "a reservation or a lossless class"
                raise ValueError(f"{what} needs total_bytes, the size of the shared buffer")
        return self

    def of(self, number: int) -> ClassBlock:
        """The block of a class, by default a lossy one with strict priority."""
        for block in self.classes:
            if block.number == number:
                return block
        return ClassBlock.model_validate({"class": number}) if number < 7 else _CONTROL

    @property
    def alpha_or_default(self) -> float:
        """Alpha of all classes that have none of their own."""
        return alpha_of(self.alpha, self.dynamic_th, 0.125)


#: Class 7 of the switches themselves, which no scenario can change.
_CONTROL = ClassBlock.model_construct(number=7)


def alpha_of(alpha: float | None, dynamic_th: int | None, default: float) -> float:
    """Alpha in either spelling."""
    if alpha is not None:
        return alpha
    return default if dynamic_th is None else 2.0**dynamic_th


def _one_alpha(alpha: float | None, dynamic_th: int | None) -> None:
    if alpha is not None and dynamic_th is not None:
        raise ValueError("alpha and dynamic_th (alpha = 2^dynamic_th) say the same; give one")


class WatchdogBlock(Model):
    """Ends a pause storm: a queue paused for `detection_us` on end no longer obeys.

    Its packets are dropped, or forwarded in spite of the pause, until no pause has come for
    `restore_us`. The defaults are those of SONiC's `pfcwd start_default`.
    """

    detection_us: PositiveTime = 200_000.0
    restore_us: PositiveTime = 200_000.0
    action: Literal["drop", "forward"] = "drop"


class PfcBlock(Model):
    """Priority flow control (IEEE 802.1Qbb) for the lossless classes.

    A port pauses its peer's class when the bytes that came in by it in that class exceed `xoff_bytes`,
    `dynamic`: alpha x the free shared buffer. It lets it go on below xoff - `xon_offset_bytes`.
    `headroom_bytes` (a port and class) take what still arrives; `auto` works it out by the formula of
    `sglb.fabric.headroom` from the link's rate and delay, the MTU, and what else is set here:
    `peer_response_quanta` (`auto`: by rate, as IEEE 802.3 allows it), `mac_phy_bytes`.
    `xon_offset_bytes` of 3 KiB is HPCC's. `pause_quanta` is what a pause frame asks for, in units of
    512 bit times; a pause that must last is renewed.
    """

    enabled: bool = False
    xoff_bytes: Annotated[
        Annotated[Literal["dynamic"], _WORD] | Annotated[Bytes, _NUMBER], _CHOICE
    ] = "dynamic"
    xon_offset_bytes: BytesOrNone = 3_072
    headroom_bytes: Annotated[
        Annotated[Literal["auto"], _WORD] | Annotated[BytesOrNone, _NUMBER], _CHOICE
    ] = "auto"
    peer_response_quanta: Annotated[
        Annotated[Literal["auto"], _WORD] | Annotated[int, Field(ge=0, le=65_535), _NUMBER],
        _CHOICE,
    ] = "auto"
    mac_phy_bytes: BytesOrNone = 819
    pause_quanta: Annotated[int, Field(ge=1, le=65_535)] = 65_535
    watchdog: WatchdogBlock | None = None


Mbps = Annotated[float, Field(gt=0, le=100_000_000)]

#: Key in the paper's words -> key in ConnectX's (MLNX_OFED), where both say the same quantity.
CONNECTX_NAMES = {
    "timer_us": "rpg_time_reset",
    "byte_counter_bytes": "rpg_byte_reset",
    "threshold": "rpg_threshold",
    "rate_ai_mbps": "rpg_ai_rate",
    "rate_hai_mbps": "rpg_hai_rate",
    "min_rate_mbps": "rpg_min_rate",
    "g": "dce_tcp_g",
    "alpha_timer_us": "dce_tcp_rtt",
    "initial_alpha": "initial_alpha_value",
    "alpha_shift": "rpg_gd",
    "min_decrease_percent": "rpg_min_dec_fac",
    "decrease_interval_us": "rate_reduce_monitor_period",
    "first_cnp_rate_mbps": "rate_to_set_on_first_cnp",
    "clamp_target_rate": "clamp_tgt_rate",
    "cnp_interval_us": "min_time_between_cnps",
}

_PAPER: dict[str, Any] = {
    "timer_us": 55.0,
    "byte_counter_bytes": 10_000_000,
    "threshold": 5,
    "rate_ai_mbps": 40.0,
    "rate_hai_mbps": 200.0,
    "min_rate_mbps": 40.0,
    "g": 1 / 256,
    "alpha_timer_us": 55.0,
    "initial_alpha": 1.0,
    "alpha_shift": 1,
    "min_decrease_percent": 50,
    "decrease_interval_us": 0.0,
    "first_cnp_rate_mbps": 0.0,
    "clamp_target_rate": True,
    "cnp_interval_us": 50.0,
}
_CONNECTX: dict[str, Any] = {
    "rpg_time_reset": 300,
    "rpg_byte_reset": 32_767,
    "rpg_threshold": 1,
    "rpg_ai_rate": 5,
    "rpg_hai_rate": 50,
    "rpg_min_rate": 1,
    "dce_tcp_g": 1_019,
    "dce_tcp_rtt": 1,
    "initial_alpha_value": 1_023,
    "rpg_gd": 11,
    "rpg_min_dec_fac": 50,
    "rate_reduce_monitor_period": 4,
    "rate_to_set_on_first_cnp": 0,
    "clamp_tgt_rate": False,
    "min_time_between_cnps": 4,
}


class DcqcnBlock(Model):
    """DCQCN (Zhu et al., SIGCOMM 2015): rate control of queue pairs by ECN marks.

    `defaults: paper` takes the constants of the paper and of the public fluid model, `connectx` those
    that NVIDIA documents for ConnectX-4 and later; the latter also is how alpha is updated (once every
    `dce_tcp_rtt` by whether a CNP came, not at each CNP). Each quantity has a name in the paper's words
    and ConnectX's own (`CONNECTX_NAMES`); either may be given, with either defaults, and
    `sglb.fabric.dcqcn_config.resolve` makes one set of integers of them.

    The paper's words: increase by `timer_us` (T) and `byte_counter_bytes` (B, 0: no byte counter),
    `threshold` (F) stages of fast recovery, steps `rate_ai_mbps` and `rate_hai_mbps`, floor
    `min_rate_mbps`; alpha by `g` and `alpha_timer_us`, from `initial_alpha`; a CNP takes
    alpha / 2^`alpha_shift` of the rate, leaves at least `min_decrease_percent` of it, counts once in
    `decrease_interval_us`, the first one sets `first_cnp_rate_mbps` (0: an ordinary decrease);
    `clamp_target_rate` sets the target rate at every CNP, else only after an increase. A receiver sends
    a CNP at most every `cnp_interval_us` a queue pair.

    ConnectX's words, in the units of its documentation: us, bytes, Mbit/s, alpha and g in 1/1024
    (g is the share kept), `rpg_gd` the power of two that such an alpha is divided by, percent.
    """

    enabled: bool = False
    defaults: Literal["paper", "connectx"] = "paper"

    timer_us: PositiveTime | None = None
    byte_counter_bytes: BytesOrNone | None = None
    threshold: Annotated[int, Field(ge=1, le=31)] | None = None
    rate_ai_mbps: Mbps | None = None
    rate_hai_mbps: Mbps | None = None
    min_rate_mbps: Mbps | None = None
    g: Annotated[float, Field(gt=0, le=1)] | None = None
    alpha_timer_us: PositiveTime | None = None
    initial_alpha: Probability | None = None
    alpha_shift: Annotated[int, Field(ge=0, le=10)] | None = None
    min_decrease_percent: Annotated[int, Field(ge=0, le=100)] | None = None
    decrease_interval_us: Time | None = None
    first_cnp_rate_mbps: Annotated[float, Field(ge=0, le=100_000_000)] | None = None
    clamp_target_rate: bool | None = None
    cnp_interval_us: Time | None = None

    rpg_time_reset: Annotated[int, Field(ge=1, le=131_071)] | None = None
    rpg_byte_reset: Annotated[int, Field(ge=0, le=32_767)] | None = None
    rpg_threshold: Annotated[int, Field(ge=1, le=31)] | None = None
    rpg_ai_rate: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    rpg_hai_rate: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    rpg_min_rate: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    dce_tcp_g: Annotated[int, Field(ge=0, le=1_023)] | None = None
    dce_tcp_rtt: Annotated[int, Field(ge=1, le=131_071)] | None = None
    initial_alpha_value: Annotated[int, Field(ge=1, le=1_023)] | None = None
    rpg_gd: Annotated[int, Field(ge=10, le=20)] | None = None
    rpg_min_dec_fac: Annotated[int, Field(ge=0, le=100)] | None = None
    rate_reduce_monitor_period: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    rate_to_set_on_first_cnp: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    clamp_tgt_rate: bool | None = None
    min_time_between_cnps: Annotated[int, Field(ge=0, le=4_095)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, data: Any) -> Any:
        """State every default: under the name of its origin, unless the other name is given."""
        if not isinstance(data, dict):
            return data
        other = {**CONNECTX_NAMES, **{v: k for k, v in CONNECTX_NAMES.items()}}
        fill = _CONNECTX if data.get("defaults") == "connectx" else _PAPER
        given = {k for k, v in data.items() if v is not None}
        missing = {k: v for k, v in fill.items() if not {k, other[k]} & given}
        return {**data, **missing}

    @model_validator(mode="after")
    def _one_name(self) -> Self:
        for paper, connectx in CONNECTX_NAMES.items():
            if getattr(self, paper) is not None and getattr(self, connectx) is not None:
                raise ValueError(f"{paper} and {connectx} are two names of one quantity; give one")
        return self
