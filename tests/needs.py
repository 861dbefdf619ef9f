"""What some tests need beyond the README's commands: `make test` skips those and reports it."""

import os

import pytest

POSTGRES = os.environ.get("FLEETLAKE_TEST_POSTGRES")
"""Address of a PostgreSQL server that tests may use; `make test-outlets` starts one."""

SPARK_PYTHON = os.environ.get("FLEETLAKE_SPARK_PYTHON")
"""The Python that has Spark; `make test-spark` installs it separately, and needs Java too."""

needs_postgres = pytest.mark.skipif(  # the README's commands install no database server
    not POSTGRES, reason="needs PostgreSQL: make test-outlets"
)
needs_spark = pytest.mark.skipif(  # the README's commands install neither Java nor Spark
    not SPARK_PYTHON, reason="needs Spark: make test-spark"
)
