"""Build the marts with Spark from an export of the raw tables. Runs in Spark's environment.

Usage: spark_run.py PROJECT PROFILES WORK. It reads WORK/in/<schema>_<table>/ and
writes WORK/out/<mart>/.
"""

import sys
from pathlib import Path

from dbt.cli.main import dbtRunner
from pyspark.sql import SparkSession


def start(work: Path) -> SparkSession:
    """Return a session in UTC; dbt's session method finds it and uses it."""
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(work / "warehouse"))
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.ui.enabled", "false")
        # To plan the two models of failovers takes more than the default of 1 GB.
        .config("spark.driver.memory", "6g")
        # As in DuckDB, a division by zero is null, not an error.
        .config("spark.sql.ansi.enabled", "false")
        .getOrCreate()
    )


def main(project: str, profiles: str, work: Path) -> int:
    """Read, build, write; return the exit code."""
    spark = start(work)
    for folder in sorted((work / "in").iterdir()):
        schema, _, table = folder.name.partition("_")
        spark.sql(f"create database if not exists {schema}")
        spark.sql(f"create table {schema}.{table} using parquet location '{folder}'")
    result = dbtRunner().invoke(
        [
            *("--log-path", str(work / "logs"), "--no-use-colors"),
            *("build", "--target", "spark", "--exclude-resource-type", "unit_test"),
            *("--exclude-resource-type", "test"),
            *("--project-dir", project, "--profiles-dir", profiles),
            *("--target-path", str(work / "target")),
        ]
    )
    if not result.success:
        return 1
    for row in spark.sql("show tables in marts").collect():
        spark.table(f"marts.{row.tableName}").coalesce(1).write.parquet(
            str(work / "out" / row.tableName)
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3], Path(sys.argv[3]).resolve()))
