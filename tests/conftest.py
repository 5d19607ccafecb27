"""Settings of the whole suite."""

from hypothesis import HealthCheck, settings

# No test fails because the machine was slow.
settings.register_profile(
    "sglb", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("sglb")
