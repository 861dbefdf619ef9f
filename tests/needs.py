"""What some tests need beyond the README's commands: `make test` skips those and reports it."""

import os
import shutil

import pytest

POSTGRES = os.environ.get("FLEETLAKE_TEST_POSTGRES")
"""Address of a PostgreSQL server that tests may use; `make test-outlets` starts one."""

SPARK_PYTHON = os.environ.get("FLEETLAKE_SPARK_PYTHON")
"""The Python that has Spark; `make test-spark` installs it separately, and needs Java too."""

# The README's commands install no database server, so only `make test-outlets` runs these tests.
needs_postgres = pytest.mark.skipif(not POSTGRES, reason="needs PostgreSQL: make test-outlets")

# The README's commands install neither Java nor Spark, so only `make test-spark` runs these tests.
needs_spark = pytest.mark.skipif(not SPARK_PYTHON, reason="needs Spark: make test-spark")

# The README's commands install no C compiler; nearly all machines for development have one.
needs_compiler = pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler, cc")
