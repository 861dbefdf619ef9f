"""The scratch file of builds: a damaged one is deleted, one that another process uses stays."""

import logging
import subprocess
import sys

import duckdb
import pytest

from fleetlake.marts.plan import SCRATCH, discard_damaged


@pytest.fixture
def scratch(tmp_path):
    """Return a good scratch file with a log beside it."""
    file = tmp_path / SCRATCH
    duckdb.connect(file).close()
    return file


def test_without_a_scratch_file_there_is_nothing_to_discard(tmp_path):
    discard_damaged(tmp_path)

    assert not [*tmp_path.iterdir()]


def test_a_good_scratch_file_stays(scratch):
    before = scratch.read_bytes()

    discard_damaged(scratch.parent)

    assert scratch.read_bytes() == before


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
