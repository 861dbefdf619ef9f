"""The simulator serves the same fleet for the same options in every release, request by request."""

import subprocess
import sys
from itertools import groupby

import pytest

from fleetsim.resources import RESOURCES
from tests.simulator.sections import section
from tests.support.processes import environment
from tools.recorded.answers import ANSWERS, FLEETS, session

RECORDED = ANSWERS.read_text(encoding="utf-8").splitlines()


def recorded() -> dict[str, list[str]]:
    """Return the recorded lines of each fleet."""
    found: dict[str, list[str]] = {}
    for is_title, lines in groupby(RECORDED, lambda line: line.startswith("# ")):
        if is_title:
            title = list(lines)[-1]
        else:
            found[title.removeprefix("# ")] = list(lines)
    return found


def differing(found: list[str], known: list[str]) -> list[tuple[str, str]]:
    """Return what is answered and what is recorded, where they differ; at most five."""
    pairs = zip(found, known, strict=False)
    return [(one, other) for one, other in pairs if one != other][:5]


@section("Simulator: determinism")
def test_the_same_options_serve_the_same_answers_in_every_release():
    known = recorded()[str(FLEETS[0])]

    found = session(**FLEETS[0])

    assert differing(found, known) == []
    assert len(found) == len(known)


@pytest.mark.proof
@section("Simulator: determinism")
def test_several_fleets_are_the_same_in_another_time_zone_and_with_other_hashes(tmp_path):
    elsewhere = {**environment(tmp_path), "TZ": "Asia/Kathmandu", "PYTHONHASHSEED": "12345"}

    done = subprocess.run(
        [sys.executable, "-m", "tools.recorded.answers", "--print"],
        env=elsewhere, capture_output=True, text=True, check=True,
    )  # fmt: skip

    found = done.stdout.splitlines()
    assert differing(found, RECORDED) == []
    assert len(found) == len(RECORDED)


@section("Endpoints: General conventions")
@pytest.mark.parametrize("name", [name for name, resource in RESOURCES.items() if resource.one_of])
def test_a_device_that_does_not_exist_has_no_records(service, name):
    required = RESOURCES[name].one_of[0]

    assert service.records(f"{name}/?{required}=7") == []
