"""The tree of errors: its drawing is correct, and each error says what to do."""

import asyncio
import inspect
import re
from datetime import timedelta

import pytest

from fleetlake import errors
from fleetlake.errors import FleetlakeError, ServiceError, Throttled
from fleetlake.service.retry import wait_before_retry

TREE = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]
TREE = [kind for kind in TREE if issubclass(kind, FleetlakeError)]


def drawn() -> dict[str, tuple[int | None, int]]:
    """Return each drawn error's exit code and depth."""
    found = {}
    for line in errors.__doc__.splitlines():
        if match := re.match(r"([│├└─ ]*)([A-Z]\w+)(?: +(\d+)| *$|  )", line):
            depth = len(match[1]) // 4
            found[match[2]] = (int(match[3]) if match[3] else None, depth)
    return found


def test_the_drawing_shows_every_error_at_its_place_in_the_tree_with_its_exit_code():
    drawing = drawn()

    assert set(drawing) == {kind.__name__ for kind in TREE}
    for kind in TREE:
        depth = len([k for k in kind.__mro__ if issubclass(k, FleetlakeError)]) - 1
        assert drawing[kind.__name__][1] == depth, kind.__name__
        assert drawing[kind.__name__][0] in {None, kind.exit_code}


@pytest.mark.parametrize("kind", TREE)
def test_an_error_is_one_paragraph_with_the_problem_and_the_remedy(kind):
    error = kind("It broke.", remedy="Mend it.")

    assert (error.what, error.remedy) == ("It broke.", "Mend it.")
    assert str(error) == "It broke. Mend it."
    assert str(kind("It broke.")) == "It broke."


def test_an_error_never_exits_with_zero():
    assert {kind.__name__ for kind in TREE if kind.exit_code == 0} == set()


@pytest.mark.parametrize("kind", TREE)
def test_a_request_is_repeated_after_a_transient_error_of_the_service(kind):
    is_repeated = issubclass(kind, ServiceError) and kind.is_transient

    assert wait_before_retry(kind("It broke.")) is is_repeated


def test_a_request_is_not_repeated_after_a_bug_or_once_it_is_given_up():
    for error in (ValueError("a bug"), asyncio.CancelledError()):
        assert wait_before_retry(error) is False


@pytest.mark.parametrize(("asked", "waited"), [(0, 0), (7, 7), (60, 60), (86_400, 60)])
def test_the_requested_wait_is_respected_up_to_a_minute(asked, waited):
    error = Throttled("x", wait=timedelta(seconds=asked))

    assert wait_before_retry(error) == timedelta(seconds=waited)
