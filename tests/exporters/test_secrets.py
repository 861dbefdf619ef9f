"""The secrets of an address appear in no error, output or log."""

import logging

import pytest
from pydantic import SecretStr

from fleetlake.errors import ExportFailed
from fleetlake.exporters import TARGETS
from fleetlake.exporters.export import export
from fleetlake.lake import open_lake
from fleetlake.text.redaction import without_secrets
from tests.support.processes import environment, fleetlake

PASSWORD = "hunter2&/é"
SPELLED = "hunter2%26%2F%C3%A9"


@pytest.fixture
def lake_path(lake_path):
    with open_lake(lake_path) as lake:
        lake.execute("create table marts.trips as select 1 as router_id, 'a' as trip_id")
    return lake_path


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://fleet:{SPELLED}@127.0.0.1:1/fleet",
        f"postgresql://127.0.0.1:1/fleet?user=fleet&password={SPELLED}",
        "host=127.0.0.1 port=1 user=fleet password=hunter2",
        f"nonsense:{SPELLED}@127.0.0.1:1/fleet",
    ],
)
def test_a_target_that_cannot_be_reached_is_reported_without_the_password(
    lake_path, address, caplog
):
    caplog.set_level(logging.DEBUG)
    with (
        open_lake(lake_path, read_only=True) as lake,
        pytest.raises(ExportFailed) as failure,
    ):
        export(lake, TARGETS["postgres"], SecretStr(address))

    assert failure.value.__cause__ is None
    assert failure.value.__context__ is None
    for text in (str(failure.value), repr(failure.value), caplog.text):
        assert "hunter2" not in text


@pytest.mark.proof
def test_the_command_says_what_failed_without_the_password_even_when_debugging(lake_path):
    address = f"postgresql://fleet:{SPELLED}@127.0.0.1:1/fleet"
    env = environment(lake_path.parent, exports__postgres=address)
    done = fleetlake("--debug", "export", "postgres", env=env)

    assert done.returncode == 1  # --debug shows the traceback, which ends in the error
    assert "The export to postgres failed" in done.stderr
    assert "hunter2" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "said",
    [
        f"no login with {PASSWORD}",
        f"no login with {SPELLED}",
        f"cannot open fleet:{SPELLED}@account/db?warehouse=w&token=t0ken",
        "the token t0ken has expired",
    ],
)
def test_a_secret_is_masked_however_a_driver_escapes_it(said):
    address = SecretStr(f"fleet:{SPELLED}@account/db?warehouse=w&token=t0ken")

    kept = without_secrets(said, address)

    assert "hunter2" not in kept
    assert "t0ken" not in kept
    assert "***" in kept
