"""One test over many cases: it runs them all, and its failure lists the failing cases."""

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import pytest

from fleetlake.endpoints import ENDPOINTS, requested_endpoints

Test = Callable[..., None]
FAILURES = (Exception, BaseExceptionGroup, pytest.fail.Exception)


def every(names: str, cases: Iterable[Any], *, ids: Iterable[str] = ()) -> Callable[[Test], Test]:
    """Return a decorator like `pytest.mark.parametrize` that runs all cases as one test item.

    The test's fixtures are set up once for all cases, so a case must leave nothing
    behind in them. `names` are the test's parameters, separated by commas; with several, each
    case is a tuple. `ids` name the cases in a failure; without them, the values are shown.
    """
    parameters = [name.strip() for name in names.split(",")]
    values = [case if len(parameters) > 1 else (case,) for case in cases]
    labels = list(ids) or [", ".join(map(label_of, value)) for value in values]
    named = list(zip(labels, values, strict=True))
    if not named:
        raise ValueError(f"there is no case of {names}")

    def decorate(test: Test) -> Test:
        @wraps(test)
        def run(**fixtures: Any) -> None:
            failures = []
            for label, value in named:
                try:
                    test(**fixtures, **dict(zip(parameters, value, strict=True)))
                except FAILURES as failure:
                    failure.add_note(f"in the case {label}")
                    failures.append((label, failure))
            if failures:
                listed = "; ".join(label for label, _ in failures)
                what = f"{len(failures)} of {len(named)} cases do not hold: {listed}"
                raise BaseExceptionGroup(what, [failure for _, failure in failures])

        signature = inspect.signature(test)
        left = [p for name, p in signature.parameters.items() if name not in parameters]
        run.__signature__ = signature.replace(parameters=left)  # the names of its fixtures
        return run

    return decorate


def label_of(value: Any) -> str:
    """Return the name of a case, or a short representation of it.

    >>> label_of(ENDPOINTS["alerts"]), label_of(["a", 1])
    ('alerts', "['a', 1]")
    """
    name = getattr(value, "name", None) or getattr(value, "__name__", None)
    return name if isinstance(name, str) else repr(value)[:60]


REQUESTED = {e.name: e for e in requested_endpoints()}
"""The rows of the endpoint table that are read from the service."""

every_endpoint = every("endpoint", REQUESTED.values(), ids=REQUESTED)
"""Run a test for each endpoint that is requested, so that a new row is tested automatically."""

every_table = every("endpoint", ENDPOINTS.values(), ids=ENDPOINTS)
"""Run a test for each raw table, that of pushed records included."""

ONE_OF_EACH_SORT = {
    (e.mode, e.api, e.fan_out is None, len(e.key), e.event_time is None): e
    for e in REQUESTED.values()
}
"""Endpoints that together cover everything that loads treat differently."""
