"""What some tests need beyond the README's commands: `make test` leaves those out and says so."""

import os

import pytest

POSTGRES = os.environ.get("FLEETLAKE_TEST_POSTGRES")
"""Address of a PostgreSQL server that tests may use; `make test-outlets` starts one."""

SPARK_PYTHON = os.environ.get("FLEETLAKE_SPARK_PYTHON")
"""The Python that has Spark; `make test-spark` installs it apart, for it wants Java as well."""

# A database server is not ours to install.
needs_postgres = pytest.mark.skipif(not POSTGRES, reason="needs PostgreSQL: make test-outlets")

# Nor is Java, and Spark itself takes half a gigabyte.
needs_spark = pytest.mark.skipif(not SPARK_PYTHON, reason="needs Spark: make test-spark")
