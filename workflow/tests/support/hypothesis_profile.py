"""Hypothesis settings under which a busy machine cannot fail a test. Fixtures are created once per test."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "without deadline", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
settings.load_profile("without deadline")
