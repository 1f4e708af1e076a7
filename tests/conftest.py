"""Settings of all tests."""

from dataclasses import replace
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, settings

# How fast examples are made and run is the machine's affair: a busy one must not fail a test.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.fixture(scope="module")
def brief_heads():
    """Train count heads a short while: for tests that do not ask how well they predict."""
    from tallyfold.inference.head import recipe, step

    def brief(n_cells: int) -> recipe.Recipe:
        found = recipe.recipe_for(n_cells)
        return replace(found, steps=found.steps // 20, looks=min(3, found.looks))

    with patch.object(step, "recipe_for", brief):
        yield
