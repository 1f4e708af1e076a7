"""Settings of all tests."""

from hypothesis import HealthCheck, settings

# How fast examples are made and run is the machine's affair: a busy one must not fail a test.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
