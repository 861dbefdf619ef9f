"""The scratch file of builds: a damaged one is deleted, one that another process uses stays."""

import json
import logging
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import duckdb
import pytest

from fleetlake.marts.plan import (
    SCRATCH,
    Built,
    build_time,
    discard_damaged,
    earlier_builds,
    last_built,
    record_built,
)
from fleetlake.marts.sql_project import project_digest, project_folder

BUILT = Built(project_digest(project_folder()), snapshot=7)
DAMAGED = json.dumps({"project": BUILT.project, "snapshot": "x"})


@pytest.fixture
def scratch(tmp_path):
    """Return a good scratch file."""
    file = tmp_path / SCRATCH
    duckdb.connect(file).close()
    return file


def note_build(scratch, built_at):
    """Note a build at a time, as the SQL project does."""
    with duckdb.connect(scratch) as connection:
        connection.execute(f"""
            CREATE SCHEMA state;
            CREATE TABLE state.built AS SELECT '{built_at}'::TIMESTAMPTZ AS built_at
        """)


def test_without_a_scratch_file_there_is_nothing_to_discard(tmp_path):
    discard_damaged(tmp_path)

    assert not [*tmp_path.iterdir()]


def test_a_good_scratch_file_stays(scratch):
    before = scratch.read_bytes()

    discard_damaged(scratch.parent)

    assert scratch.read_bytes() == before


def test_the_next_build_is_later_than_any_before_whatever_the_clock_says(scratch):
    assert earlier_builds(scratch.parent).latest is None  # a first build has not ended
    note_build(scratch, "2999-12-31 23:59:59.123456+00")

    earlier = earlier_builds(scratch.parent)

    assert earlier.latest == datetime(2999, 12, 31, 23, 59, 59, 123456, tzinfo=UTC)
    assert build_time(None, earlier.latest) == earlier.latest + timedelta(microseconds=1)
    assert build_time() <= build_time(datetime(2020, 1, 1, tzinfo=UTC), None) <= datetime.now(UTC)


def test_a_record_without_a_scratch_file_counts_for_nothing(tmp_path):
    record_built(tmp_path, BUILT)

    discard_damaged(tmp_path)

    assert last_built(tmp_path) is None


@pytest.mark.parametrize("content", ["", "{", "[]", '{"project": 3}', DAMAGED])
def test_a_record_that_cannot_be_read_counts_for_nothing(tmp_path, content):
    record_built(tmp_path, BUILT)
    [file] = tmp_path.iterdir()
    file.write_text(content)

    assert last_built(tmp_path) is None


@pytest.mark.parametrize("content", [b"DUCK", b"", b"x" * 20_000])
def test_a_damaged_scratch_file_is_deleted_with_its_log_and_said_to_be(scratch, content, caplog):
    scratch.write_bytes(content)
    log = scratch.with_name(f"{SCRATCH}.wal")
    log.write_bytes(b"x")

    with caplog.at_level(logging.WARNING):
        discard_damaged(scratch.parent)

    assert (scratch.exists(), log.exists()) == (False, False)
    assert "everything is built again" in caplog.text


def test_a_scratch_file_that_another_process_has_open_stays(scratch):
    script = (
        f"import duckdb; c = duckdb.connect({str(scratch)!r})\nprint('open', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        discard_damaged(scratch.parent)
        other.communicate("\n")

    assert scratch.exists()
