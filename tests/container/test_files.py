"""Containerfile and compose.yaml name commands, settings, ports and folders that exist."""

import re
import shutil
from fnmatch import fnmatch
from importlib.metadata import version
from itertools import takewhile
from pathlib import Path

import pytest
import yaml

from fleetlake.cli.prefect import server as prefect_server
from fleetlake.dashboard.web_app import create_dashboard
from fleetlake.lake import open_lake
from fleetlake.publishing.publish import publish
from fleetlake.receiving.intake import open_intake
from fleetlake.receiving.push_app import create_app
from fleetlake.settings import Settings, load_settings, unknown_variables
from tests.container.files import (
    COMPOSE,
    CONTAINERFILE,
    ROOT,
    VARIABLE,
    Instruction,
    image_environment,
    instructions,
    services,
)
from tools.reference import leaf_commands

SECRET = re.compile(r"PASSWORD|KEY|TOKEN|AUTH|CONNECTION_URL|MC_HOST|API_ID")
SLOT_HOLDERS = "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE"
OURS = {name: one for name, one in services().items() if one["image"].startswith("fleetlake:")}


def of(word: str, *, stage: int = 2) -> list[Instruction]:
    """Return the instructions of one kind in a stage of the Containerfile."""
    found = instructions(CONTAINERFILE.read_text())
    return [one for one in found if one.word == word and one.stage == stage]


def only(word: str) -> Instruction:
    """Return the last instruction of one kind in the image."""
    return of(word)[-1]


def test_the_image_has_the_version_of_this_release():
    assert {one["image"] for one in OURS.values()} == {f"fleetlake:{version('fleetlake')}"}


def test_every_image_is_pinned_to_a_version():
    base = re.findall(r"^ARG PYTHON=(\S+)$", CONTAINERFILE.read_text(), re.MULTILINE)
    images = [*base, *(one["image"] for one in services().values())]

    assert len(base) == 1
    assert all(re.search(r":[\w.-]*\d+[.-]\d+[\w.-]*$", image) for image in images), images
    assert {one.value.split()[0] for stage in (1, 2) for one in of("FROM", stage=stage)} == {
        "${PYTHON}"
    }


@pytest.mark.parametrize("name", OURS)
def test_every_command_of_ours_exists(name):
    assert only("ENTRYPOINT").words == ["/usr/bin/tini", "--", "fleetlake"]
    words = [*takewhile(lambda word: not word.startswith("-"), OURS[name]["command"])]
    given = [word for word in OURS[name]["command"] if word.startswith("--")]
    commands = dict(leaf_commands())

    command = commands[" ".join(["fleetlake", *words])]
    assert {*given} <= {option for one in command.params for option in one.opts}


def test_the_health_check_is_a_command_that_exists():
    shell, option, line = only("HEALTHCHECK").words[-3:]

    assert (shell, option) == ("sh", "-c")
    assert line.split()[:2] == ["fleetlake", "status"]
    assert "fleetlake status" in {path for path, _ in leaf_commands()}


@pytest.mark.parametrize(
    ("name", "routes"),
    [
        ("dashboard", create_dashboard(Path("nowhere")).routes),
        ("receiver", create_app(lambda: open_intake(load_settings())).routes),
    ],
)
def test_the_health_check_of_a_server_asks_an_address_that_it_has(name, routes):
    command = dict(leaf_commands())[f"fleetlake {OURS[name]['command'][0]}"]
    [port] = [one.default for one in command.params if one.name == "port"]

    [address] = re.findall(r"urlopen\('(.*?)'\)", OURS[name]["healthcheck"]["test"][-1])
    assert address == f"http://127.0.0.1:{port}/healthz"
    assert OURS[name]["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert "/healthz" in {route.path for route in routes}


def test_the_dashboard_reads_the_published_volume_and_has_no_key_of_lake_or_service():
    service = OURS["dashboard"]

    assert {*service["environment"]} == {"FLEETLAKE_DASHBOARD_TOKEN"}
    folder = Path(image_environment()["FLEETLAKE_PUBLISHED"]).parent
    assert service["volumes"] == [f"published:{folder}:ro"]


def test_the_journal_of_pushes_outlives_the_receivers_container():
    [mount] = [one for one in OURS["receiver"]["volumes"] if one.startswith("receiver:")]

    volume, folder = mount.split(":")
    assert folder == only("WORKDIR").value
    assert not Settings.model_fields["push_journal"].default.is_absolute()
    assert volume in yaml.safe_load(COMPOSE.read_text())["volumes"]


def test_the_receiver_reads_the_secrets_that_a_worker_makes():
    folder = Path(image_environment()["FLEETLAKE_PUSH_SECRETS_FILE"]).parent

    assert f"secrets:{folder}" in OURS["worker"]["volumes"]
    assert f"secrets:{folder}:ro" in OURS["receiver"]["volumes"]


def test_every_setting_is_a_setting_of_fleetlake():
    named = set(re.findall(r"FLEETLAKE_\w+", COMPOSE.read_text() + CONTAINERFILE.read_text()))

    assert len(named) > 8
    assert list(unknown_variables(named)) == []


def test_the_image_runs_as_a_user_with_folders_of_its_own():
    user, group = only("USER").value.split(":")
    created = " ".join(one.value for one in of("RUN"))

    assert (user, group) == ("10001", "10001")
    assert f"--uid {user}" in created
    owned = re.findall(r"install -d -m 700 -o fleetlake -g fleetlake (.*)", created)[0].split()
    assert sorted(owned) == sorted(only("VOLUME").words)
    environment = image_environment()
    assert environment["HOME"] == only("WORKDIR").value == owned[0]
    assert Path(environment["FLEETLAKE_PUBLISHED"]).parent == Path(owned[1])
    assert Path(environment["FLEETLAKE_PUSH_SECRETS_FILE"]).parent == Path(owned[2])


def test_a_publication_writes_nothing_outside_the_volumes(empty_lake, tmp_path):
    lake, root = Path(shutil.copytree(empty_lake, tmp_path / "lake")), tmp_path / "root"
    with open_lake(lake) as opened:
        opened.execute("create table marts.trips as select 1 as trip_id")
    volumes = [root / volume.strip("/") for volume in only("VOLUME").words]
    for volume in volumes:
        volume.mkdir(parents=True)
    before = set(root.rglob("*"))

    for _ in range(2):
        publish(lake, root / image_environment()["FLEETLAKE_PUBLISHED"].strip("/"))

    written = set(root.rglob("*")) - before
    assert [path for path in written if path.name == "snapshot.json"]
    assert [path for path in written if not set(volumes) & set(path.parents)] == []
    assert not any(volume.is_symlink() for volume in volumes), "a mount point cannot be replaced"


def test_the_image_gets_the_lock_and_the_wheel_and_no_other_file():
    patterns = (ROOT / ".dockerignore").read_text().split("\n")
    sent = [line.removeprefix("!") for line in patterns if line.startswith("!")]
    copied = [one.value.split()[0] for one in of("COPY", stage=1)]

    assert "*" in patterns
    assert copied == sent
    assert fnmatch(f"dist/fleetlake-{version('fleetlake')}-py3-none-any.whl", sent[1])
    assert [one.value.split()[0] for one in of("COPY")] == ["--from=build"]


@pytest.mark.parametrize("name", OURS)
def test_every_service_of_ours_has_few_rights_and_a_read_only_root(name):
    service = OURS[name]

    assert service["read_only"] is True
    assert service["tmpfs"] == ["/tmp"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "user" not in service, "the image names the user"


def test_every_secret_comes_from_the_environment():
    values = {
        name: value
        for service in services().values()
        for name, value in service.get("environment", {}).items()
        if SECRET.search(name)
    }

    assert len(values) > 10
    assert {n for n, v in values.items() if v is not None and not VARIABLE.search(v)} == set()
    assert not re.search(r"\$\{?\w+(?!\w|:\?)", COMPOSE.read_text()), "a variable with no check"


def test_the_servers_memory_outlives_its_container():
    """The counts of taken slots are in the database, and their holders in PREFECT_HOME."""
    [mount] = services()["prefect"]["volumes"]
    volume, folder = mount.split(":")

    assert prefect_server.DEFAULTS[SLOT_HOLDERS].endswith(".filesystem")
    assert folder == image_environment()["HOME"]
    assert volume in yaml.safe_load(COMPOSE.read_text())["volumes"]
