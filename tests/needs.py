"""What some tests need beyond the README's commands: `make test` leaves those out and says so."""

import os

import pytest

POSTGRES = os.environ.get("FLEETLAKE_TEST_POSTGRES")
"""Address of a PostgreSQL server that tests may use; `make test-outlets` starts one."""

SPARK_PYTHON = os.environ.get("FLEETLAKE_SPARK_PYTHON")
"""The Python that has Spark; `make test-spark` installs it apart, for it wants Java as well."""

needs_postgres = pytest.mark.skipif(  # a database server is not ours to install
    POSTGRES is None, reason="needs a PostgreSQL server: make test-outlets"
)
needs_spark = pytest.mark.skipif(  # Java is not ours to install, and Spark takes half a gigabyte
    SPARK_PYTHON is None, reason="needs Spark in an environment of its own: make test-spark"
)
