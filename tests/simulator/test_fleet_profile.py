"""The records of one fleet are as its profile describes them, for every resource and cause."""

import json
from typing import Any

import pytest

from fleetsim.causes import CAUSES
from tests.simulator.sections import section
from tools.recorded.fleet_profile import LISTS, PROFILE, profile

KNOWN: dict[str, Any] = json.loads(PROFILE.read_text(encoding="utf-8"))


def closely(figures: Any) -> Any:
    """Allow for the last digits of a float, which differ between machines."""
    if isinstance(figures, dict):
        return {name: closely(inner) for name, inner in figures.items()}
    if isinstance(figures, list) and figures and isinstance(figures[-1], int | float):
        return pytest.approx(figures, rel=1e-6, abs=1e-6)
    return figures


@section("Simulator: determinism")
@pytest.mark.parametrize("name", [*LISTS, *CAUSES])
def test_the_fleet_is_as_its_profile_describes_it(name):
    found = profile(name)

    assert list(found) == list(KNOWN[name])
    for field, figures in found.items():
        assert figures == closely(KNOWN[name][field]), f"{name}.{field}"


@section("Simulator: determinism")
def test_the_profile_covers_every_resource_and_cause():
    assert list(KNOWN) == [*LISTS, *CAUSES]
