"""What a run is like: every key with its unit, bounds, default and where the default comes from."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sglb.collective.savings import llama3

#: More simulated faults than this (runs x faults a run) would take minutes.
MAX_FAULTS = 400_000_000
# A step of all runs to their next fault takes as long as that many faults, however few runs.
_STEP_IN_FAULTS = 1_000


class SettingsError(ValueError):
    """Settings that make no sense; the text has one line for each problem."""


#: What failover can save a job from losing: they leave a host its other rails. `job`: nothing helps.
Part = Literal["nic", "link", "switch"]
Loss = Literal["job", "nic", "link", "switch"]


class _Block(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class Fault(_Block):
    """A kind of fault.

    `per_gpu_hour`: how often it comes, for each GPU of the job and hour. `repair_h`: from the fault
    until the part works again; None: the run's `repair_h`. `source`: where the rate is from.
    """

    per_gpu_hour: float = Field(ge=0, le=1)
    loses: Loss = "job"
    repair_h: float | None = Field(default=None, ge=0, le=10_000)
    source: str = "given"


_Hours = Annotated[float, Field(ge=0, le=10_000)]
_Minutes = Annotated[float, Field(ge=0, le=100_000)]
_Seconds = Annotated[float, Field(ge=0, le=1_000_000)]


class Settings(_Block):
    """A run, its faults and what is done about them. Raises `pydantic.ValidationError`.

    Attributes:
        gpus: GPUs of the job; all wait when one does.
        days: length of the run by the clock; GPU-hours are counted in it, working or not.
        rails_per_host: NICs of a host that carry collectives.
        reroute: where the traffic of a lost rail goes: `balanced` over the host's m - 1 others
            (m / (m - 1) of the communication time), to one `neighbour` (twice), or `dual-homed`: as
            balanced, but each NIC has two ports on two switches, so that a link or switch takes half a
            rail, and the job survives it without failover too (at half the rate of that NIC: twice).
        exposed_communication: share of an iteration that waits for the network (0 to 1): that part
            takes longer on fewer rails.
        checkpoint_interval_min: work between two checkpoints, or the rule that chooses it for each
            policy's own rate of restarts: `young`, `daly` or `exact`.
        checkpoint_write_s: the job stands still that long for each checkpoint.
        detection_s: from a fault until the job is known to be dead.
        restart_min: from then until it works again, from its last checkpoint.
        failover_stall_s: the job stands still that long when failover saves it.
        repair_h: from a fault until the lost rail is back (a kind of fault may have its own).
        repair_times: every repair takes `repair_h` (`fixed`), or so long on average (`exponential`).
        restart_replaces: a restart moves the job off hosts with lost rails, to healthy ones.
        failover_saves: what failover saves a job from losing.
        fault_scale: factor on every rate, `network_fault_scale`: on those of nic, link and switch.
        fault_table: `llama3`, or `none` to have only `faults`.
        faults: kinds of faults by name, added to the table's or in their place.
        runs: runs to simulate, with random numbers from `seed`.
    """

    gpus: int = Field(default=16_384, ge=1, le=100_000_000)
    days: float = Field(default=54.0, gt=0, le=3_650)
    rails_per_host: int = Field(default=8, ge=1, le=1_024)
    reroute: Literal["balanced", "neighbour", "dual-homed"] = "balanced"
    exposed_communication: float = Field(default=0.2, ge=0, le=1)
    checkpoint_interval_min: (
        Annotated[float, Field(gt=0, le=100_000)] | Literal["young", "daly", "exact"]
    ) = "daly"
    checkpoint_write_s: _Seconds = 30.0
    detection_s: _Seconds = 30.0
    restart_min: _Minutes = 10.0
    failover_stall_s: _Seconds = 1.0
    repair_h: _Hours = 4.0
    repair_times: Literal["fixed", "exponential"] = "fixed"
    restart_replaces: bool = False
    failover_saves: Annotated[tuple[Part, ...], Field(strict=False)] = ("nic", "link", "switch")
    fault_scale: float = Field(default=1.0, ge=0, le=10_000)
    network_fault_scale: float = Field(default=1.0, ge=0, le=10_000)
    fault_table: Literal["llama3", "none"] = "llama3"
    faults: dict[str, Fault] = Field(default_factory=dict)
    runs: int = Field(default=10_000, ge=2, le=1_000_000)
    seed: int = Field(default=1, ge=0, le=2**63 - 1)

    @model_validator(mode="after")
    def _check(self) -> Settings:
        if not self.kinds():
            raise ValueError("fault_table is none and faults has no kind: nothing can fail")
        if isinstance(self.checkpoint_interval_min, str) and self.checkpoint_write_s == 0:
            raise ValueError(
                f"checkpoint_interval_min: {self.checkpoint_interval_min} needs checkpoint_write_s "
                "above 0; when writing costs nothing, the shorter the better"
            )
        a_run = self.hours * self.rate_per_hour()
        if (self.runs + _STEP_IN_FAULTS) * a_run > MAX_FAULTS:
            raise ValueError(
                f"{self.runs:,} runs with about {a_run:,.0f} faults each would take minutes; take "
                "fewer runs, days, GPUs or faults"
            )
        return self

    @property
    def hours(self) -> float:
        """Length of the run in hours."""
        return self.days * 24

    @property
    def gpu_hours(self) -> float:
        """GPU-hours of the whole run."""
        return self.hours * self.gpus

    def kinds(self) -> dict[str, Fault]:
        """All kinds of faults by name, the table's first, with rates scaled."""
        table: dict[str, Fault] = {}
        if self.fault_table == "llama3":
            for name, count, loses in llama3.COUNTS:
                rate = llama3.per_gpu_hour(count)
                source = f"{count} in {llama3.SOURCE}"
                table[name] = Fault.model_validate(
                    {"per_gpu_hour": rate, "loses": loses, "source": source}
                )
            name, why = llama3.LAST_HOP
            table[name] = Fault(per_gpu_hour=0.0, loses="link", source=why)
        table |= self.faults
        return {name: self._scaled(fault) for name, fault in table.items()}

    def _scaled(self, fault: Fault) -> Fault:
        scale = self.fault_scale * (1 if fault.loses == "job" else self.network_fault_scale)
        return fault.model_copy(update={"per_gpu_hour": fault.per_gpu_hour * scale})

    def rate_per_hour(self) -> float:
        """Faults of all kinds that the job has in an hour."""
        return self.gpus * sum(fault.per_gpu_hour for fault in self.kinds().values())
