"""What a dbt command reports: its steps as they end, and the results of models and tests."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

_GOOD = frozenset({"success", "pass", "warn", "no-op"})


@dataclass(frozen=True, kw_only=True)
class BuildStep:
    """One finished step of a build: `index` of `total`, a model or a data test."""

    name: str
    kind: str
    status: str
    index: int
    total: int
    seconds: float


OnProgress = Callable[[BuildStep], None]


@dataclass(frozen=True, kw_only=True)
class TestResult:
    """The result of a data test; `failures` counts bad rows, `rows` holds the first few.

    If it failed, `spoils` names the models that it tests, and all that depend on them.
    """

    name: str
    model: str
    status: str
    failures: int
    seconds: float
    sql: str = field(repr=False)
    spoils: tuple[str, ...] = ()
    rows: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, kw_only=True)
class NodeResult:
    """The result of a model or seed.

    If it failed, `message` is the database's error, `reads` names the raw tables that it depends
    on, and `suspects` are the first of their records that may be the cause.
    """

    name: str
    schema: str
    kind: str
    status: str
    seconds: float
    message: str
    sql: str = field(repr=False)
    unit: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    suspects: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class UnitTestResult:
    """The result of a unit test; `message` shows the rows that differ if it failed."""

    name: str
    status: str
    message: str


@dataclass(frozen=True, kw_only=True)
class DbtRun:
    """The results of one dbt invocation."""

    nodes: tuple[NodeResult, ...]
    tests: tuple[TestResult, ...]
    unit_tests: tuple[UnitTestResult, ...] = ()
    unknown: tuple[str, ...] = ()
    """Names in the selection that match nothing in the project."""

    @property
    def stale(self) -> frozenset[str]:
        """Return the models that failed themselves, by a test, or because of one they depend on."""
        failed = {node.name for node in self.nodes if node.status not in _GOOD}
        return frozenset(failed).union(*(test.spoils for test in self.tests))

    @property
    def is_good(self) -> bool:
        """True if every model was built and no test failed."""
        results: tuple[NodeResult | TestResult | UnitTestResult, ...]
        results = (*self.nodes, *self.tests, *self.unit_tests)
        return {result.status for result in results} <= _GOOD


@dataclass(frozen=True, kw_only=True)
class ModelResult:
    """The result of one model; `rows` is None for what is not a mart."""

    name: str
    schema: str
    kind: str
    rows: int | None
    seconds: float
    is_written: bool
    tests_passed: int
    tests_warned: int


@dataclass(frozen=True, kw_only=True)
class BuildResult:
    """The result of a build of one snapshot of the lake; `seconds` is wall time.

    `models` are those that were computed: none if nothing has changed. `dropped` are marts that
    left the lake because their model was removed. `nothing_loaded` is true if the lake never
    received a row, which explains why its marts are empty.
    """

    models: tuple[ModelResult, ...]
    dropped: tuple[str, ...]
    tests: tuple[TestResult, ...]
    snapshot_id: int
    is_full: bool
    nothing_loaded: bool
    seconds: float

    @property
    def warnings(self) -> tuple[TestResult, ...]:
        """Return the data tests that found bad rows in the service's data."""
        return tuple(test for test in self.tests if test.status == "warn")
