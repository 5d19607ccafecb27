"""Settings of the whole suite."""

import os

from hypothesis import HealthCheck, settings

# No test fails because the machine was slow, and a run finds what the run before would have found: new
# examples are looked for by `make fuzz`.
_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow], "print_blob": True}
settings.register_profile("sglb", derandomize=True, **_COMMON)
settings.register_profile("fuzz", **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "sglb"))
