"""What some tests need beyond the README's commands: a PostgreSQL server, or a Python with Spark.

Those tests are marked `postgres` or `spark`. `make test` does not select them; `make test-outlets`
and `make test-cluster` start what they need and run them.
"""

import os

import pytest

_POSTGRES = "FLEETLAKE_TEST_POSTGRES"
_SPARK = "FLEETLAKE_SPARK_PYTHON"
NAMES = frozenset({_POSTGRES, _SPARK})
"""Variables of the tests: no settings, although they are named so."""


def postgres() -> str:
    """Return the address of a PostgreSQL server that tests may use; without one the test fails."""
    return _named(_POSTGRES, "make test-outlets")


def spark_python() -> str:
    """Return the path of the Python that has Spark; without one the test fails."""
    return _named(_SPARK, "make test-cluster")


def _named(variable: str, target: str) -> str:
    value = os.environ.get(variable)
    return value or pytest.fail(f"{variable} is not set: `{target}` sets it.", pytrace=False)
