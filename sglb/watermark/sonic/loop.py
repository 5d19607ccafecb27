"""The tuner on SONiC switches: watches their counters, and writes its steps within the guard band.

All switches get one setting. Each write is that of `actuator.apply`: all or nothing, read back, noted
in the journal first. A connection that is away is waited for; a write whose answer was lost is settled
by what the fields hold. A step that hurts is taken back by the search; at the end the best setting that
is known is put in force.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TypeVar

from sglb.switch.clock import PS_PER_US
from sglb.watermark.device import Port
from sglb.watermark.objective import Weights
from sglb.watermark.sonic.actuator import Held, Journal, apply
from sglb.watermark.sonic.change import Change, plan
from sglb.watermark.sonic.config import SwitchConfig, read_config
from sglb.watermark.sonic.database import Address, Database
from sglb.watermark.sonic.errors import (
    SonicConflictError,
    SonicConnectionError,
    SonicDataError,
    SonicUncertainError,
)
from sglb.watermark.sonic.facts import SonicFacts, check_counted, read_facts, view
from sglb.watermark.sonic.fields import WRED_PROFILE, Target
from sglb.watermark.sonic.guard import Guard
from sglb.watermark.sonic.levels import SonicSpace, Tunables, pool_of, space
from sglb.watermark.sonic.record import Record, Told
from sglb.watermark.sonic.telemetry import Sample, Telemetry, difference
from sglb.watermark.space import Place
from sglb.watermark.telemetry.view import FabricFacts, observation
from sglb.watermark.tuner.annealing import Annealer, Schedule
from sglb.watermark.tuner.observation import Observation
from sglb.watermark.tuner.session import nearest_feasible

_T = TypeVar("_T")
_RETRY_S = 0.2
#: Frames shorter than this on average are acknowledges.
_DATA_BYTES = 256


@dataclass(frozen=True, slots=True)
class LoopOptions:
    """What a user may choose.

    Attributes:
        interval_s: between two settings; SONiC refreshes counters of queues every 10 s by default.
        patience_s: how long a connection may stay away.
        rtt_us: a round trip without queues, which delays are judged against.
        pool_bytes: what lossless traffic shares; None: as BUFFER_POOL says.
    """

    interval_s: float = 10.0
    patience_s: float = 60.0
    rtt_us: float = 10.0
    pool_bytes: int | None = None
    seed: int = 1
    weights: Weights = field(default_factory=Weights)
    schedule: Schedule = field(default_factory=Schedule)


class SonicLoop:
    """A tuner of one or several switches, which must be set alike.

    With a `record` that has intervals already it goes on from there: the same places known, the same
    search. Raises a `SonicError` when there is nothing to tune, a switch stands otherwise than its guard
    band, the others, or what the record knows; `WatermarkError` when no setting is allowed.
    """

    def __init__(
        self,
        databases: Sequence[Database],
        guard: Guard,
        options: LoopOptions,
        record: Record | None = None,
    ) -> None:
        self.record = record or Record()
        self._databases = list(databases)
        self._guard = guard
        self._options = options
        self._tunables = Tunables.of(guard)
        profiles = {
            target.profile
            for some in self._tunables.moved.values()
            for target in some
            if target.table == WRED_PROFILE
        }
        self._facts: list[SonicFacts] = []
        found: list[tuple[SonicSpace, Place]] = []
        for database in self._databases:
            config = read_config(database)
            if self.record.start is not None:
                config = config.having(self.record.start)  # where it began
            facts = read_facts(database, config, profiles)
            self._facts.append(facts)
            pool = options.pool_bytes
            if pool is None:
                pool = pool_of(database.table("BUFFER_POOL"), database.address)
            found.append(space(config, guard, self._tunables, _port(facts), pool))
        self.space, self.start = found[0]
        for database, (other, place) in zip(self._databases, found, strict=True):
            if other.values(place) != self.space.values(self.start):
                raise SonicDataError(
                    f"{database.address} is set otherwise than {self._databases[0].address}; "
                    "`sglb sonic set` can make them alike"
                )
        self._telemetry = [
            Telemetry(database, facts.ports)
            for database, facts in zip(self._databases, self._facts, strict=True)
        ]
        self._samples()  # complains before anything is written
        self._ports = FabricFacts(
            {
                (number, at): facts.ports[name]
                for number, facts in enumerate(self._facts)
                for at, name in enumerate(sorted(facts.ports))
            },
            self._facts[0].classes[0],
            round(options.rtt_us * PS_PER_US),
            _DATA_BYTES,
        )
        self.annealer = Annealer(
            self.space,
            nearest_feasible(self.space, self.start),
            random.Random(f"{options.seed}/tuner"),
            options.weights,
            options.schedule,
        )
        self._in_force = self.start
        goes_on = self.record.start is not None
        self.record.begin(self._identity(), self.fields(self.start))
        self.record.replay(self.annealer)
        if goes_on:
            self._in_force = self._found()

    def _identity(self) -> dict[str, object]:
        """What makes this loop the one that it is, but for what it has seen."""
        options = self._options
        return {
            "switches": [str(database.address) for database in self._databases],
            "guard": {str(target): band for target, band in sorted(self._guard.bands.items())},
            "levels": {p.name: p.levels for p in self.space.parameters},
            "interval": options.interval_s,
            "round trip": options.rtt_us,
            "seed": options.seed,
            "weights": asdict(options.weights),
            "schedule": asdict(options.schedule),
        }

    def _found(self) -> Place:
        """Of the places that the record knows the one in which the switches stand."""
        steps = self.annealer.steps
        known = {self.annealer.place, self.annealer.best, self.start, *(s.place for s in steps)}
        known.add(nearest_feasible(self.space, self.start))
        by_fields = {tuple(self.fields(place).values()): place for place in sorted(known)}
        places = set()
        for database in self._databases:
            config = read_config(database)
            values = tuple(config.value(target) for target in self.fields(self.start))
            place = by_fields.get(values)  # type: ignore[arg-type]
            if place is None:
                texts = (
                    f"{t} is {v}" for t, v in zip(self.fields(self.start), values, strict=True)
                )
                raise SonicConflictError(
                    f"{config.address}: {', '.join(texts)}, which this loop never set: somebody else "
                    "changed it; set it back (`sglb sonic set`), or name another file"
                )
            places.add(place)
        if len(places) > 1:
            raise SonicConflictError(
                "the switches are set differently, as a loop leaves them that was cut off; "
                "`sglb sonic set` can make them alike"
            )
        return places.pop()

    def fields(self, place: Place) -> dict[Target, int]:
        """A place as fields of the configuration."""
        return self._tunables.wanted(self.space.watermarks(place))

    @property
    def left_alone(self) -> tuple[str, ...]:
        """Fields of the guard that a tuner never writes."""
        return tuple(str(target) for target in self._tunables.left)

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The switches."""
        return tuple(database.address for database in self._databases)

    @property
    def place_in_force(self) -> Place:
        """What the switches have, as far as this loop knows."""
        return self._in_force

    @property
    def in_force(self) -> dict[Target, int]:
        """The same as fields of the configuration."""
        return self.fields(self._in_force)

    @property
    def best(self) -> dict[Target, int]:
        """The best setting that is known, as fields of the configuration."""
        return self.fields(self.annealer.best)

    # --- without writing ---

    def look(self) -> tuple[Observation | None, dict[str, list[Change]]]:
        """Watches one interval, and says what the first step would be. Nothing is written."""
        before = self._samples()
        time.sleep(self._options.interval_s)
        seen, _ = self._seen(before, self._samples())
        if seen is not None and not seen.idle:
            self.annealer.observed(seen)
        return seen, self._changes(self.annealer.place)

    # --- the loop ---

    def run(
        self,
        held: Sequence[Held],
        journal: Journal,
        tell: Callable[[Told], None],
        stop: Callable[[], bool],
        intervals: int | None = None,
    ) -> None:
        """Tunes until `stop`, or for so many intervals. `held` are the switches, locked.

        Raises a `SonicError` for what can't be waited out: a lost lock, a field that somebody else
        changed, a write of which nobody knows whether it was made, a connection that stays away.
        """
        try:
            self._rounds(held, journal, tell, stop, intervals)
        except (SonicDataError, KeyboardInterrupt):
            self._settle(held, journal)
            raise
        self._settle(held, journal)

    def _rounds(
        self,
        held: Sequence[Held],
        journal: Journal,
        tell: Callable[[Told], None],
        stop: Callable[[], bool],
        intervals: int | None,
    ) -> None:
        self.record.wrote(self._write(held, journal, self.annealer.place))
        before = self._patiently(held, self._samples)
        count = 0
        while not stop() and (intervals is None or count < intervals):
            count += 1
            self._wait(stop)
            after = self._patiently(held, self._samples)
            told = self._interval(held, journal, before, after)
            tell(told)
            before = self._patiently(held, self._samples) if told.changes else after

    def _settle(self, held: Sequence[Held], journal: Journal) -> None:
        best = self.annealer.best
        if self._in_force != best:
            self.record.wrote(self._write(held, journal, best))

    def _interval(
        self,
        held: Sequence[Held],
        journal: Journal,
        before: Sequence[Sample],
        after: Sequence[Sample],
    ) -> Told:
        seen, why = self._seen(before, after)
        if seen is None:
            told = Told(None, None, {}, why)
            self.record.saw(told)
            return told
        steps = len(self.annealer.steps)
        place = self.annealer.observed(seen)
        step = self.annealer.steps[-1] if len(self.annealer.steps) > steps else None
        told = Told(seen, step, {})
        self.record.saw(told)  # before it is written: what stands there after a kill is known
        if place != self._in_force:
            self.record.wrote(self._write(held, journal, place))
        return told

    def _wait(self, stop: Callable[[], bool]) -> None:
        end_s = time.monotonic() + self._options.interval_s
        while not stop() and (left_s := end_s - time.monotonic()) > 0:
            time.sleep(min(left_s, _RETRY_S))

    def _samples(self) -> list[Sample]:
        samples = [telemetry.sample() for telemetry in self._telemetry]
        for address, facts, one in zip(self.addresses, self._facts, samples, strict=True):
            check_counted(address, facts, one)
        return samples

    def _patiently(self, held: Sequence[Held], call: Callable[[], _T]) -> _T:
        """A call with the locks renewed, again while a connection is away."""
        end_s = time.monotonic() + self._options.patience_s
        while True:
            try:
                for one in held:
                    one.lock.renew()
                return call()
            except SonicUncertainError:
                raise
            except SonicConnectionError:
                if time.monotonic() >= end_s:
                    raise
                time.sleep(_RETRY_S)

    def _seen(
        self, before: Sequence[Sample], after: Sequence[Sample]
    ) -> tuple[Observation | None, str]:
        grown = [difference(one, two) for one, two in zip(before, after, strict=True)]
        anew = [name for one in grown for name in one.restarted]
        if anew:
            return None, f"counters began anew: {', '.join(anew[:3])}"
        views = [
            (number, view(facts, one, two))
            for number, (facts, one, two) in enumerate(zip(self._facts, grown, after, strict=True))
        ]
        return observation(self._ports, views), ""

    # --- writing ---

    def _changes(self, place: Place) -> dict[str, list[Change]]:
        wanted = self.fields(place)
        found = {}
        for database in self._databases:
            config = read_config(database)
            self._undisturbed(config)
            found[str(database.address)] = plan(config, wanted, self._guard)
        return found

    def _write(
        self, held: Sequence[Held], journal: Journal, place: Place
    ) -> dict[str, list[Change]]:
        """Puts a place in force, as often as it takes while connections are away."""

        def once() -> dict[str, list[Change]]:
            changes = self._changes(place)
            apply(held, changes, journal, self._options.patience_s)
            return changes

        changes = self._patiently(held, once)
        self._in_force = place
        return {address: some for address, some in changes.items() if some}

    def _undisturbed(self, config: SwitchConfig) -> None:
        """Raises SonicConflictError when a field is not as it was left."""
        for target, value in self.fields(self._in_force).items():
            now = config.value(target)
            if now != value:
                raise SonicConflictError(
                    f"{config.address}: {target} is {now} now, not {value}: somebody else changed it; "
                    "the tuner has ended and leaves it so"
                )


def _port(facts: SonicFacts) -> Port:
    fastest = max(port.rate_bps for port in facts.ports.values())
    return Port(
        rate_gbps=fastest / 1e9, ports=len(facts.ports), lossless_classes=len(facts.classes)
    )
