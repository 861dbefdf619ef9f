"""Read data files with Spark and write what it read as Parquet. Runs in Spark's environment.

Usage: spark_read.py LISTS OUT. LISTS is a JSON file {name: [data files]}; the result is written to
OUT/<name>/.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession


def main(lists: Path, out: Path) -> None:
    """Read each table in UTC and write it out again."""
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    for name, files in json.loads(lists.read_text()).items():
        spark.read.option("mergeSchema", "true").parquet(*files).coalesce(1).write.parquet(
            str(out / name)
        )
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
