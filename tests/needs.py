"""What some tests need beyond the README's commands: `make test` leaves those out and says so."""

import os

import pytest

POSTGRES = os.environ.get("FLEETLAKE_TEST_POSTGRES")
"""Address of a PostgreSQL server that tests may use; `make test-outlets` starts one."""

SPARK_PYTHON = os.environ.get("FLEETLAKE_SPARK_PYTHON")
"""The Python that has Spark; `make test-spark` installs it apart, for it wants Java as well."""

NO_POSTGRES = "needs PostgreSQL: make test-outlets"
NO_SPARK = "needs Spark: make test-spark"

needs_postgres = pytest.mark.skipif(not POSTGRES, reason=NO_POSTGRES)  # a server is not ours to run
needs_spark = pytest.mark.skipif(not SPARK_PYTHON, reason=NO_SPARK)  # nor is Java ours to install
