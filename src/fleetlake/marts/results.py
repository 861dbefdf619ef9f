"""The results of a build: its models, its data tests, and what left the lake."""

from dataclasses import dataclass

from fleetlake.marts.dbt import TestResult


@dataclass(frozen=True, kw_only=True)
class ModelResult:
    """The result of one model; `rows` is None for a view."""

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
