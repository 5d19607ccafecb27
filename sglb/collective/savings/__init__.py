"""GPU-hours that network failover saves: faults, restarts, degraded time; simulated and in formulas.

`assess(Settings(...))` is the whole of it; `given.checked` takes settings as they come from a file,
`sweep` varies them, `plot` draws a sweep, `show` prints. No torch here.
"""

from sglb.collective.savings.assessment import Assessment, assess
from sglb.collective.savings.settings import Fault, Settings, SettingsError

__all__ = ["Assessment", "Fault", "Settings", "SettingsError", "assess"]
