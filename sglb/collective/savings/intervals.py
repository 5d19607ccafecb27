"""How much work to put between two checkpoints: three rules, all for faults that come at random.

All times in hours. `write_h` is what writing a checkpoint costs, the mean time between faults is M.
"""

from __future__ import annotations

import math

#: Work between checkpoints where (nearly) nothing ends the job: a year.
LONGEST_H = 8_760.0


def best_h(rule: str, write_h: float, faults_per_hour: float) -> float:
    """The interval by `young`, `daly` or `exact`, at most `LONGEST_H`."""
    rules = {"young": young_h, "daly": daly_h, "exact": exact_h}
    if faults_per_hour <= 0:
        return LONGEST_H
    return min(LONGEST_H, rules[rule](write_h, 1 / faults_per_hour))


def young_h(write_h: float, mtbf_h: float) -> float:
    """sqrt(2 write M): J. W. Young, CACM 17(9), 1974."""
    return math.sqrt(2 * write_h * mtbf_h)


def daly_h(write_h: float, mtbf_h: float) -> float:
    """Young's with two more terms: J. T. Daly, FGCS 22(3), 2006, the higher order estimate."""
    if write_h >= 2 * mtbf_h:
        return mtbf_h
    x = write_h / (2 * mtbf_h)
    return young_h(write_h, mtbf_h) * (1 + math.sqrt(x) / 3 + x / 9) - write_h


def exact_h(write_h: float, mtbf_h: float) -> float:
    """What makes the work done per hour largest: the root of (1 - t/M) exp((t + write)/M) = 1.

    That is where the derivative of `closed_forms.efficiency` by the interval is 0; it lies in (0, M).
    """
    low, high = 0.0, 1.0
    delta = write_h / mtbf_h
    for _ in range(200):
        middle = (low + high) / 2
        if math.log1p(-middle) + middle + delta > 0:
            low = middle
        else:
            high = middle
    return low * mtbf_h
