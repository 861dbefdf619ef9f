"""Fixtures: a simulated service, and the table of contract sections at the end of a run."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.simulator.sections import table
from tests.support.service import Service, shared, start


@pytest.fixture(scope="session")
def service() -> Service:
    """Return a service that tests only read from: 50 routers, 35 days, frozen clock."""
    return shared(days=35)


@pytest.fixture
def make_service() -> Callable[..., Service]:
    """Return a function that starts a service for one test."""

    def make(**options: Any) -> Service:
        return start(**{"days": 3, **options})

    return make


@pytest.fixture
def fresh(make_service: Callable[..., Service]) -> Service:
    """Return a service that a test may write to."""
    return make_service()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("simulator: checks by contract section")
    terminalreporter.write_line(table())
