"""A test over many cases runs them all and names those that fail."""

import inspect

import pytest

from tests.every import every


def test_every_case_runs_and_failing_cases_are_named():
    seen = []

    @every("number", [1, 2, 3, 4])
    def check(number):
        seen.append(number)
        assert number % 2

    with pytest.raises(ExceptionGroup, match="2 of 4 cases do not hold: 2; 4") as failure:
        check()

    assert seen == [1, 2, 3, 4]
    assert [error.__notes__ for error in failure.value.exceptions] == [
        ["in the case 2"],
        ["in the case 4"],
    ]


def test_an_expected_error_that_is_not_raised_is_a_failure():
    @every("kind", [ValueError, KeyError])
    def check(kind):
        with pytest.raises(ValueError, match="no"):
            raise ValueError("no") if kind is ValueError else KeyError("no")

    @every("number", [0, 1])
    def check_more(number):
        with pytest.raises(ZeroDivisionError):
            assert 1 / number

    with pytest.raises(BaseExceptionGroup, match="KeyError"):
        check()
    with pytest.raises(BaseExceptionGroup, match="1 of 2 cases"):
        check_more()


def test_cases_of_two_sets_are_combined_and_fixtures_stay_parameters():
    seen = []

    @every("a", "xy", ids=["first", "second"])
    @every("b, c", [(1, 2), (3, 4)])
    def check(tmp_path, a, b, c):
        seen.append((tmp_path, a, b, c))

    assert [*inspect.signature(check).parameters] == ["tmp_path"]
    check(tmp_path=0)
    assert seen == [(0, "x", 1, 2), (0, "x", 3, 4), (0, "y", 1, 2), (0, "y", 3, 4)]


def test_a_set_without_cases_is_refused():
    with pytest.raises(ValueError, match="no case"):
        every("endpoint", [])
