"""A shared lake whose files are objects."""

from collections.abc import Iterator

import pytest
from pyarrow import fs
from pydantic import SecretStr

from fleetlake.lake import open_lake
from fleetlake.lake_address import SharedLake
from tests.support.object_store import object_store


@pytest.fixture
def bucket() -> Iterator[fs.S3FileSystem]:
    """Return an object store with a bucket `fleet`, and set the variables that point to it."""
    with object_store() as opened:
        yield opened


def test_rows_are_written_to_the_store_and_read_from_it(catalog, bucket):
    place = SharedLake(SecretStr(catalog), "s3://fleet/lake")
    with open_lake(place) as lake:
        lake.execute("create table marts.trips as select i as trip_id from range(5000) r(i)")
        lake.execute("delete from marts.trips where trip_id < 1000")

    with open_lake(place, read_only=True) as lake:
        assert lake.rows("select count(*), min(trip_id) from marts.trips") == [(4000, 1000)]
    found = bucket.get_file_info(fs.FileSelector("fleet/lake", recursive=True))
    assert sum(one.path.endswith(".parquet") for one in found) >= 1
