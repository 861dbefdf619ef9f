"""Thinning the lake's history: what stays small, and who still finds an older snapshot."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from pydantic import SecretStr

import fleetlake
from fleetlake.care import maintenance, thinning
from fleetlake.care.maintenance import maintain
from fleetlake.care.thinning import thin_snapshots
from fleetlake.exporters.export import export, target_named
from fleetlake.lake import open_lake
from fleetlake.lake.ducklake import METADATA, newest_snapshot
from fleetlake.lake.locks import commit_lock, files_lock

pytestmark = pytest.mark.proof

MINUTE = timedelta(minutes=1)
WINDOW = timedelta(minutes=30)


@pytest.fixture
def lake(lake_path, monkeypatch):
    """Return an open lake with a mart of a few rows, in which few snapshots are thinned."""
    monkeypatch.setattr(thinning, "FEWEST", 10)
    with open_lake(lake_path) as opened:
        opened.execute("set ducklake_default_data_inlining_row_limit = 0")
        opened.execute("create table marts.failover_now (router_id bigint, so_far_s bigint)")
        yield opened


def pass_time(lake, span):
    """Make every snapshot older."""
    lake.execute(
        f"update {METADATA}.ducklake_snapshot set snapshot_time = "
        f"(snapshot_time::timestamptz - to_seconds({span.total_seconds()}))::varchar"
    )


def build(lake, number):
    """Rewrite the mart, as a live build does."""
    with lake.transaction():
        lake.execute("delete from marts.failover_now")
        lake.execute(f"insert into marts.failover_now values (1, {number}), (2, 0)")


def build_all(lake, numbers):
    for number in numbers:
        pass_time(lake, MINUTE)
        build(lake, number)


def thin(lake, keep_all=WINDOW):
    with commit_lock(lake.path):
        return thin_snapshots(lake, keep_all=keep_all)


def sizes(lake):
    """Return how many snapshots, catalog rows of files and files there are."""
    [(snapshots,)] = lake.rows(f"select count(*) from {METADATA}.ducklake_snapshot")
    [(listed,)] = lake.rows(f"select count(*) from {METADATA}.ducklake_data_file")
    return snapshots, listed, len([*lake.path.rglob("*.parquet")])


def test_a_build_a_minute_leaves_those_of_the_window_and_one_of_each_older_hour(lake):
    seen = []
    for number in range(180):
        build_all(lake, [number])
        thin(lake)
        if number % 60 == 59:
            seen.append(sizes(lake))

    # Each hour may add one of its own, and what waits for enough others.
    for early, late in pairwise(seen):
        assert all(b - a <= 1 + thinning.FEWEST for a, b in zip(early, late, strict=True))
    assert max(seen[-1]) < 60 + len(seen)
    assert lake.rows("from marts.failover_now order by all") == [(1, 179), (2, 0)]


def test_time_travel_still_finds_each_hour(lake, lake_path):
    build_all(lake, range(70))
    pass_time(lake, timedelta(hours=1))
    last_of_hour = lake.rows(
        "select max(snapshot_id) from lake.snapshots() where snapshot_id > ? "
        "group by date_trunc('hour', snapshot_time)",
        [newest_snapshot(lake) - 70],
    )

    def seen():
        return [
            lake.rows(f"from marts.failover_now at (version => {snapshot}) order by all")
            for (snapshot,) in last_of_hour
        ]

    then = seen()
    assert thin(lake) > 60

    assert len(then) > 1
    assert seen() == then
    with fleetlake.open(lake_path) as reader:
        before = reader.as_of(datetime.now(UTC) - timedelta(hours=1))
        assert before.sql("from marts.failover_now").arrow().num_rows == 2


def test_the_next_export_still_sends_only_what_changed(lake, tmp_path):
    build(lake, 0)
    target, address = target_named("jsonl"), SecretStr(str(tmp_path / "out"))

    def exported():
        [done] = export(lake, target, address, ["failover_now"])
        return done

    assert exported().full_reason
    for start in (100, 200):
        for number in range(start, start + 15):
            build(lake, number)
        assert thin(lake, keep_all=timedelta(0)) > 10
        done = exported()
        assert (done.full_reason, done.sent) == (None, 1)
    [(held,)] = lake.rows("select count(*) from meta.exports")
    assert held == 1


def test_nothing_goes_while_a_backup_copies_files_or_if_little_would(lake):
    for number in range(15):
        build(lake, number)
    assert thin(lake) == 0
    pass_time(lake, WINDOW)
    with files_lock(lake.path, seconds=0):
        assert thin(lake) == 0
    before = sizes(lake)
    assert thin(lake) > 10
    assert thin(lake) == 0
    assert all(now < was for now, was in zip(sizes(lake), before, strict=True))


def test_maintenance_leaves_the_last_day_whole_and_one_snapshot_of_each_hour_before_it(lake):
    pass_time(lake, timedelta(days=30))  # those that made the lake
    for number in range(12):
        pass_time(lake, timedelta(hours=11) if number % 3 == 0 else MINUTE)
        build(lake, number)
    made = lake.rows("select snapshot_id, snapshot_time from lake.snapshots() order by 1")[-12:]
    day_ago = datetime.now(UTC) - thinning.KEEP_EACH
    last_of_hour = {at.replace(minute=0, second=0, microsecond=0): n for n, at in made}
    kept = [n for n, at in made if at >= day_ago or n in last_of_hour.values()]
    assert 3 <= len([at for _, at in made if at >= day_ago]) < len(kept) < len(made)

    def seen():
        at = "from marts.failover_now at (version => {}) order by all"
        return [lake.rows(at.format(number)) for number in kept]

    then = seen()
    assert maintain(lake).snapshots_expired > 12 - len(kept)
    assert seen() == then
    now = {number for (number,) in lake.rows("select snapshot_id from lake.snapshots()")}
    assert now & {number for number, _ in made} == set(kept)


def test_a_list_whose_versions_end_each_day_has_few_files_however_many_nights_pass(
    lake, monkeypatch
):
    monkeypatch.setattr(maintenance, "MOST_LOST", 2)
    nights = 7
    table = "raw.batteries"
    counts = []
    for night in range(nights):
        with lake.transaction():
            lake.execute(f"update {table} set valid_to = now() where valid_to is null and id < '3'")
            ids = "select unnest(range(9))::varchar as id"
            lake.execute(f"insert into {table} by name select id, {night} as rsoc from ({ids})")
        maintain(lake)
        listed = "select count(*) from ducklake_list_files('lake', 'batteries', schema => 'raw')"
        counts.append(lake.rows(listed)[0][0])

    assert max(counts) <= 4
    [(rows, open_ones)] = lake.rows(f"select count(*), count_if(valid_to is null) from {table}")
    assert (rows, open_ones) == (9 * nights, 9 + 6 * (nights - 1))
