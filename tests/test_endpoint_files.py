"""Endpoint files: lists that users describe are rows like ours, and a wrong file is named."""

import shutil
from dataclasses import asdict
from pathlib import Path

import pytest

from fleetlake.cli.status import summary_lines
from fleetlake.decoding.records import PAGES
from fleetlake.endpoints import (
    ENDPOINTS,
    endpoint_named,
    forget_own,
    optional_lists,
    own_files,
    read_own,
    shipped_lists,
)
from fleetlake.endpoints.endpoint_files import read_files
from fleetlake.endpoints.list_definitions import text_of
from fleetlake.endpoints.model import Api, Group, Mode
from fleetlake.endpoints.relations import endpoints_of, group_of
from fleetlake.errors import SettingsError
from fleetlake.lake import open_lake
from fleetlake.lake.guard import Reads
from fleetlake.monitoring.proof import prove
from fleetlake.monitoring.status import lake_status
from tests.support.sim import NOW

SITES = """\
[sites]
about = "Sites of the fleet."
schedule = "readings"
fields = ["id", "account"]

[sites.columns."place.town"]
kind = "text"
meaning = "Town of the site."
privacy = "place"

[site_events]
about = "What happened at sites."
kind = "append"
key = ["site_id", "created_at_timeuuid"]
cursor = "timeuuid"
event_time = "created_at"
window = ["created_at__gte", "created_at__lt"]
fields = ["created_at", "created_at_timeuuid"]

[site_events.columns.site]
kind = "relation"
meaning = "Site of the event."

[site_events.per]
parameter = "site__in"
source = "sites"
partition = "site_id"
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "fleetlake.toml").touch()
    (tmp_path / "endpoints").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path / "endpoints"


def faults_in(project, text: str) -> list[str]:
    (project / "own.toml").write_text(text)
    return [f"{fault.line}: {fault.what}" for fault in read_own(own_files())[1]]


def test_own_lists_follow_the_shipped_ones_in_the_table(project):
    (project / "sites.toml").write_text(SITES)

    assert [*ENDPOINTS][-2:] == ["sites", "site_events"]
    assert [*ENDPOINTS][:-2] == [*shipped_lists()]


def test_an_own_list_has_what_its_file_says_and_defaults_for_the_rest(project):
    (project / "sites.toml").write_text(SITES)

    sites, events = endpoint_named("sites"), endpoint_named("site_events")
    assert [column.name for column in sites.columns] == ["id", "account_id", "place_town"]
    assert (sites.mode, sites.api, sites.path, sites.key) == (
        Mode.HISTORY,
        Api.V2,
        "sites/",
        ("id",),
    )
    assert (group_of(sites), group_of(events)) == (Group.READINGS, Group.SERIES)
    assert "site_events" in endpoints_of(Group.SERIES, is_divisible=True)
    assert events.cursor.parameter == "created_at_timeuuid__gt"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[a]\nabout = 'A.'\npth = 'x'", "3: there is no key pth. Did you mean path?"),
        ("[a]\nabout = 'A.'\nkey = []", "3: key is empty."),
        ("[a]\nkind = 'latest'", "1: about is missing."),
        ("[a]\nabout = 'A.'\nkind = 'update'", "3: kind should be 'append'"),
        ("[a]\nabout = 'A.'\nkind = 'append'", "1: a: kind append needs event_time"),
        ("[a]\nabout = 'A.'\nfields = ['id', 'rooter']", "1: a: fleetlake does not know the field"),
        ("[a]\nabout = 'A.'\nfields = ['name']", "1: a: no such columns: ['id']"),
        ("[a]\nabout = 'A.'\nfields = ['id', 'id']", "1: a: two fields become the column id"),
        ("[a]\nabout = 'A.'\n[a.columns.x]\nkind = 'txt'\nmeaning = 'X.'", "4: columns.x.kind"),
        ("[a]\nabout = 'A.'\npage_size = 501", "3: page_size should be less"),
        ("[a]\nabout = 'A.'\npath = '../secrets'", "3: path has characters"),
        ("[a]\nabout = 'A.'\npath = 'https://elsewhere/list'", "3: path has characters"),
        ("[routers]\nabout = 'A.'\nfields = ['id']", "1: fleetlake has a list called routers."),
        ("[A-b]\nabout = 'A.'\nfields = ['id']", "1: 'A-b' is no name of a table"),
        ("[a]\nabout = 'A.'\nkind = history", "3: Invalid value"),
        ("[a]\nabout = 'A.'\nretention_days = 99999999999", "3: retention_days should be less"),
        (
            "[a]\nabout = 'A.'\nfields = ['id']\n[a.columns.rowid]\nkind = 'text'\nmeaning = 'X.'",
            "1: a: 'rowid' cannot be the name of a column",
        ),
        (
            "[a]\nabout = 'A.'\nkey = ['x']\n[a.columns.x]\nkind = 'real'\nmeaning = 'X.'",
            "1: a: x is real, which identifies no record",
        ),
        ("a = 1", "1: the list should be a valid dictionary"),
        (
            (
                "[a]\nabout = 'A.'\nfields = ['id']\n"
                "[a.columns._load_id]\nkind = 'text'\nmeaning = 'X.'"
            ),
            "1: a: '_load_id' cannot be the name of a column",
        ),
        (
            (
                "[a]\nabout = 'A.'\nfields = ['id']\n"
                "[a.per]\nparameter = 'x'\nsource = 'routrs'\npartition = 'id'"
            ),
            "1: a: there is no list routrs. Did you mean routers?",
        ),
        (
            (
                "[a]\nabout = 'A.'\nfields = ['id']\n"
                "[a.per]\nparameter = 'x'\nsource = 'routers'\npartition = 'router_id'"
            ),
            "1: a: it has no column router_id",
        ),
        (
            (
                "[a]\nabout = 'A.'\napi = 'push'\nkind = 'append'\nevent_time = 'created_at'\n"
                "confirmed_by = 'alerts'\nfields = ['id', 'created_at']"
            ),
            "1: a: only fleetlake's own list is pushed.",
        ),
    ],
)
def test_a_wrong_file_says_in_which_line_and_what(project, text, fault):
    [found, *_] = faults_in(project, text)

    assert found.startswith(fault), found


def test_all_faults_of_all_lists_are_found_at_once(project):
    text = "[a]\nabout = 'A.'\npth = 'x'\nkid = 'y'\n[b]\nabout = 'B.'\nfields = ['rooter']"

    assert len(faults_in(project, text)) == 3


def test_a_name_that_two_files_use_is_refused(project):
    (project / "a.toml").write_text("[a]\nabout = 'A.'\nfields = ['id']")
    (project / "b.toml").write_text("[a]\nabout = 'A.'\nfields = ['id']")

    [fault] = read_own(own_files())[1]
    assert f"described in {project / 'b.toml'}:1, too" in str(fault)


def test_a_wrong_file_stops_with_its_place_and_what_to_do(project):
    (project / "own.toml").write_text("[a]\nabout = 'A.'\npth = 'x'\nkid = 'y'")

    with pytest.raises(SettingsError, match=r"own.toml:3: there is no key pth.*1 more"):
        list(ENDPOINTS)


def test_a_list_of_ours_passes_the_check_of_own_files_as_the_same_list(project):
    for one in {**shipped_lists(), **optional_lists()}.values():
        (project / "own.toml").write_text(text_of(one))
        found, faults = read_files(own_files())

        assert (faults, [asdict(other.endpoint) for other in found]) == ([], [asdict(one.endpoint)])


def test_the_type_of_a_record_is_kept_where_a_list_has_several(project, sim):
    for name in ("exchange_sites", "exchange_resources"):
        (project / f"{name}.toml").write_text(text_of(optional_lists()[name]))

    PAGES.clear()

    outcomes = sim.ingest("exchange_sites", "exchange_resources")

    assert [outcome.error for outcome in outcomes] == [None, None]
    assert PAGES.keys() == {"fast"}
    truth = {one["id"]: one["type"] for one in sim.truth("exchange_resources")}
    with open_lake(sim.folder / "lake", read_only=True) as lake:
        held = dict(lake.rows("select id, record_type from raw.exchange_resources"))
        extra = lake.rows("select count(_extra) from raw.exchange_resources")
    assert held == truth
    assert len({*truth.values()}) > 1
    assert extra == [(0,)]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (
            ('kind = "text"', 'kind = "integer"'),
            "holds place_town as VARCHAR, and the file makes it",
        ),
        (("fields =", 'kind = "latest"\nfields ='), "holds every version of a record"),
        (("fields =", 'key = ["account_id"]\nfields ='), "the rows of raw.sites are 'key id'"),
    ],
)
def test_a_lake_whose_columns_are_described_otherwise_is_not_written(
    project, empty_lake, tmp_path, change, fault
):
    lake = Path(shutil.copytree(empty_lake, tmp_path / "lake"))
    (project / "sites.toml").write_text(SITES)
    with open_lake(lake) as opened:
        assert opened.rows("select count(*) from raw.sites") == [(0,)]
    (project / "sites.toml").write_text(SITES.replace(*change, 1))
    forget_own()

    with pytest.raises(SettingsError, match=rf"sites.toml:1: .*{fault}"), open_lake(lake):
        pass


def test_different_records_of_one_key_stop_the_stream(project, sim):
    text = text_of(optional_lists()["exchange_resources"])
    (project / "own.toml").write_text(text.replace("typed", 'key = ["record_type"]\ntyped'))
    (project / "sites.toml").write_text(text_of(optional_lists()["exchange_sites"]))

    outcomes = sim.ingest("exchange_sites", "exchange_resources")

    [outcome] = [one for one in outcomes if one.endpoint == "exchange_resources"]
    assert "different records with the same record_type" in str(outcome.error)


def test_an_answer_from_a_table_that_is_described_nowhere_is_not_complete(project, sim):
    file = project / "sites.toml"
    file.write_text(text_of(optional_lists()["exchange_sites"]))
    sim.ingest("accounts", "exchange_sites")
    file.unlink()
    forget_own()

    with open_lake(sim.folder / "lake", read_only=True) as lake:
        found = prove(lake, Reads(frozenset({"raw.exchange_sites"})), now=NOW)
        state = lake_status(lake, now=NOW, calls_per_minute=0)
        told = [*summary_lines(state, NOW)]

    assert not found.is_complete
    assert "raw.exchange_sites is no longer loaded" in found.not_complete_because[0]
    assert any("raw.exchange_sites is no longer loaded" in line for line in told), told
