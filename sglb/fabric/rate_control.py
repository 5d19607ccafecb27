"""DCQCN of one sender in real time, in the words of `dcqcn_config`: what native hosts do natively.

As there, a sender is active while its rate is below its link's; the alpha timer has no events, its
periods are made up for at each CNP; and the stage after `threshold` is the first that raises the target.
"""

from __future__ import annotations

from collections.abc import Callable

from sglb.fabric.dcqcn_config import ALPHA_ONE, DcqcnConfig
from sglb.fabric.roce import WIRE_OVERHEAD_BYTES
from sglb.switch.clock import PS_PER_S, Scheduler


class RateControl:
    """The rate of a sender. `line_bps` gives its link's rate, `changed` is told of a rate that rose."""

    def __init__(
        self,
        config: DcqcnConfig,
        scheduler: Scheduler,
        line_bps: Callable[[], int],
        changed: Callable[[], object],
    ) -> None:
        self._config = config
        self._scheduler = scheduler
        self._line_bps = line_bps
        self._changed = changed
        self._active = False
        self._rate = self._target = 0
        self._alpha = 0.0
        self._alpha_at = -1
        self._cnp = False
        self._cut_at = 0
        self._time_stage = self._byte_stage = 0
        self._counted = 0
        self._timer_at = 0
        self._armed = False
        self._next_ps = 0
        self.cnps = 0

    @property
    def rate_bps(self) -> int:
        """The rate now, on the wire."""
        return self._rate if self._active else self._line_bps()

    @property
    def next_ps(self) -> int:
        """From when on the next frame may leave."""
        return self._next_ps if self._active else 0

    def sent(self, frame_bytes: int) -> None:
        """A frame begins to leave."""
        if not self._active:
            return
        limit = self._config.byte_counter_bytes
        if limit:
            self._counted += frame_bytes
            while self._active and self._counted >= limit:
                self._counted -= limit
                self._byte_stage += 1
                self._increase()
        bits = (frame_bytes + WIRE_OVERHEAD_BYTES) * 8
        rate = max(1, self.rate_bps)
        self._next_ps = self._scheduler.now_ps + (bits * PS_PER_S + rate - 1) // rate

    def notified(self) -> None:
        """A CNP has arrived."""
        config, now = self._config, self._scheduler.now_ps
        self.cnps += 1
        first = self._alpha_at < 0
        if first:
            self._alpha, self._alpha_at = config.initial_alpha / ALPHA_ONE, now
        else:
            self._age(now)
            if now - self._cut_at < config.decrease_interval_ps:
                self._cnp = not config.alpha_at_cnp
                return
        self._cut(first)
        if config.alpha_at_cnp:
            self._alpha += (1 - self._alpha) * config.g / ALPHA_ONE
            self._alpha_at = now
        else:
            self._cnp = True
        self._cut_at = now
        self._time_stage = self._byte_stage = self._counted = 0
        self._timer_at = now + config.timer_ps
        self._arm()

    def _age(self, now: int) -> None:
        """Makes up for the periods of the alpha timer that have passed."""
        config = self._config
        periods = (now - self._alpha_at) // config.alpha_timer_ps
        if periods <= 0:
            return
        self._alpha_at += periods * config.alpha_timer_ps
        g = config.g / ALPHA_ONE
        if self._cnp:
            self._alpha += (1 - self._alpha) * g
            self._cnp = False
            periods -= 1
        self._alpha *= (1 - g) ** periods

    def _cut(self, first: bool) -> None:
        config, line = self._config, self._line_bps()
        rate = self.rate_bps
        target = self._target if self._active else line
        if first and config.first_cnp_rate_bps:
            rate = target = min(config.first_cnp_rate_bps, line)
        else:
            if config.clamp_target_rate or self._time_stage + self._byte_stage > 0:
                target = rate
            less = rate - round(rate * self._alpha / (1 << config.alpha_shift))
            rate = max(less, rate * config.min_decrease_percent // 100, config.min_rate_bps)
            rate = min(rate, line)
        self._rate, self._target = max(1, rate), target
        self._active = self._rate < line

    def _increase(self) -> None:
        config, line = self._config, self._line_bps()
        stage = self._time_stage
        other = self._byte_stage if config.byte_counter_bytes else stage
        if min(stage, other) > config.threshold:
            self._target += config.rate_hai_bps
        elif max(stage, other) > config.threshold:
            self._target += config.rate_ai_bps
        self._target = min(self._target, line)
        self._rate = min((self._rate + self._target + 1) >> 1, line)
        self._active = self._rate < line

    def _arm(self) -> None:
        if self._active and not self._armed:
            self._armed = True
            self._scheduler.call_at(self._timer_at, self._on_timer)

    def _on_timer(self) -> None:
        self._armed = False
        now = self._scheduler.now_ps
        if self._active and now >= self._timer_at:
            self._time_stage += 1
            self._timer_at = now + self._config.timer_ps
            before = self._rate
            self._increase()
            # What was to wait for the old rate waits for less.
            self._next_ps = now + (self._next_ps - now) * before // max(1, self._rate)
            self._changed()
        self._arm()
