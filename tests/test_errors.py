"""The tree of errors: its drawing is correct, and each error says what to do."""

import inspect
import re

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


def test_the_drawing_shows_every_error_at_its_place_in_the_tree():
    drawing = drawn()

    assert set(drawing) == {kind.__name__ for kind in TREE}
    for kind in TREE:
        depth = len([k for k in kind.__mro__ if issubclass(k, FleetlakeError)]) - 1
        assert drawing[kind.__name__][1] == depth, kind.__name__


@pytest.mark.parametrize("kind", TREE)
def test_the_drawing_states_each_exit_code(kind):
    code, _ = drawn()[kind.__name__]

    assert code in {None, kind.exit_code}


@pytest.mark.parametrize("kind", TREE)
def test_an_error_is_one_paragraph_with_the_problem_and_the_remedy(kind):
    error = kind("It broke.", remedy="Mend it.")

    assert (error.what, error.remedy) == ("It broke.", "Mend it.")
    assert str(error) == "It broke. Mend it."
    assert str(kind("It broke.")) == "It broke."


def test_an_error_never_exits_with_zero():
    assert {kind.__name__ for kind in TREE if kind.exit_code == 0} == set()


def test_an_error_without_a_retry_delay_requests_none():
    assert Throttled("Too many calls.").wait is None


def test_each_error_says_whether_it_is_transient():
    transient = {kind.__name__ for kind in TREE if kind.is_transient}

    assert transient == {
        *("Unreachable", "Throttled", "PageUnreadable"),
        *("LakeError", "LakeBusy", "StreamBusy", "CommitUnknown"),
    }


@pytest.mark.parametrize("kind", TREE)
def test_a_request_is_repeated_after_a_transient_error_of_the_service(kind):
    is_repeated = issubclass(kind, ServiceError) and kind.is_transient

    assert wait_before_retry(kind("It broke.")) is is_repeated
