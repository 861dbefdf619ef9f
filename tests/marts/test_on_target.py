"""What a build on another engine takes, keeps and refuses; a stand-in for dbt plays the engine."""

import json
import re
import shutil
from contextlib import suppress
from dataclasses import dataclass, field

import duckdb
import jinja2
import pytest

from fleetlake.errors import BuildFailed, SettingsError
from fleetlake.lake import open_lake
from fleetlake.lake.ducklake import newest_snapshot
from fleetlake.marts import on_target
from fleetlake.marts.build import build_marts, forget_scratch
from fleetlake.marts.dbt import DbtRun, NodeResult
from fleetlake.marts.on_target import BuildTarget, target_build, target_of
from fleetlake.marts.plan import SCRATCH, work_folder
from fleetlake.marts.sql_project import project_folder
from fleetlake.marts.target_state import STATE
from fleetlake.privacy.erase import own_storages
from fleetlake.settings import Settings

pytestmark = pytest.mark.xdist_group("marts")

MART = "own_mart"
WHOLE = {"0001-02-03": [], "2026-11-02": [1, 2], "2026-11-03": [3]}
"""What a build of the whole mart writes, by day."""


def node(status="success"):
    return NodeResult(
        name=MART,
        schema="marts",
        kind="incremental",
        status=status,
        seconds=1,
        message="",
        sql="",
        unit=("usage_date",),
    )


def write(folder, rows):
    folder.mkdir(parents=True, exist_ok=True)
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT unnest({rows}::INT[]) AS n) TO '{folder}/f.parquet'")


@dataclass
class Engine:
    """A stand-in for dbt, which writes a mart as an engine does, and keeps what it was shown.

    Builds of new rows write the `touched` days.
    """

    storage: object
    status: str = "success"
    ends: bool = True
    is_mounted: bool = True
    touched: dict = field(default_factory=dict)
    shown: list = field(default_factory=list)

    @property
    def tables(self):
        return self.storage / "tables" / "marts" / MART

    def run(self, words, **_):
        if "--args" in words:
            self.shown.append(json.loads(words[words.index("--args") + 1]))
            return DbtRun(nodes=(), tests=())
        variables = json.loads(words[words.index("--vars") + 1])
        is_new = MART not in variables["built"] or "--full-refresh" in words
        if self.status == "success" and self.is_mounted:
            for day, rows in (WHOLE if is_new else self.touched).items():
                write(self.tables / variables["build"] / f"usage_date={day}", rows)
        if not self.ends:
            raise BuildFailed("dbt was ended by SIGKILL")
        return DbtRun(nodes=(node(self.status),), tests=())


@dataclass
class World:
    """A lake, and an engine with a storage."""

    lake: object
    engine: Engine

    @property
    def work(self):
        folder = work_folder(self.lake) / "on-spark"
        folder.mkdir(exist_ok=True)
        return folder

    def change_machine(self):
        """Build on another machine from now on, with a folder of its own."""
        work = self.work
        work.rename(work.with_name(f"elsewhere {len([*work.parent.iterdir()])}"))
        (self.work / "storages").write_text(str(self.engine.storage.resolve()))

    @property
    def target(self):
        return BuildTarget("spark", self.engine.storage)

    @property
    def state(self):
        return json.loads((self.engine.storage / "tables" / STATE).read_text())

    def change_state(self, **members):
        file = self.engine.storage / "tables" / STATE
        file.write_text(json.dumps(self.state | members))

    def begin(self, lake, *, is_full=False):
        return target_build(
            self.target,
            lake,
            address=self.lake,
            work=self.work,
            snapshot=newest_snapshot(lake),
            memory="1GB",
            is_full=is_full,
        )

    def build(self, *words):
        with open_lake(self.lake) as opened:
            build = self.begin(opened, is_full="--full-refresh" in words)
            build.run(opened, ["build", *words], self.engine, lambda _: None)

    def rows(self):
        with duckdb.connect(self.work / SCRATCH) as connection:
            return sorted(connection.execute(f"SELECT n FROM marts.{MART}").fetchall())


@pytest.fixture
def world(lake_path, tmp_path, monkeypatch):
    """Return a world in which few tables are mirrored."""
    monkeypatch.setattr(on_target, "mirrored_tables", lambda: frozenset({"raw.routers"}))
    return World(lake_path, Engine(tmp_path / "storage"))


def days(world):
    """Return the days that are in each of the mart's folders, the first build's first."""
    return [
        sorted(day.name.partition("=")[2] for day in version.glob("*=*"))
        for version in sorted(world.engine.tables.iterdir())
    ]


def test_days_that_a_build_writes_take_the_place_of_those_before(world):
    world.build()
    world.engine.touched = {"2026-11-03": [4], "2026-11-04": [5]}
    world.build()
    assert world.rows() == [(1,), (2,), (4,), (5,)]
    assert days(world) == [["0001-02-03", "2026-11-02"], ["2026-11-03", "2026-11-04"]]

    world.engine.touched = {"2026-11-03": [], "2026-11-04": [6]}
    world.build()
    assert world.rows() == [(1,), (2,), (6,)]
    assert days(world) == [["0001-02-03", "2026-11-02"], ["2026-11-03", "2026-11-04"]]

    world.engine.touched = {}
    world.build()
    [table] = world.engine.shown[-1]["made"]
    assert world.rows() == [(1,), (2,), (6,)]
    assert [place.split("/")[-2] for place in table["days"].values()] == [
        version.name for version in sorted(world.engine.tables.iterdir()) for _ in range(2)
    ]


@pytest.mark.parametrize("words", [["--full-refresh"], ["--full-refresh", "--select", MART]])
def test_a_build_of_the_whole_mart_takes_the_place_of_all_days(world, words):
    world.build()
    world.engine.touched = {"2026-11-04": [5]}
    world.build()

    world.build(*words)

    assert world.rows() == [(1,), (2,), (3,)]
    assert days(world) == [[*WHOLE]]


def test_what_a_killed_build_wrote_and_its_queries_still_write_is_not_taken(world):
    world.build()
    world.engine.touched, world.engine.ends = {"2026-11-02": [7], "2026-11-04": [8]}, False
    with pytest.raises(BuildFailed):
        world.build()
    [_, killed] = sorted(world.engine.tables.iterdir())

    world.engine.touched, world.engine.ends = {"2026-11-03": [4]}, True
    world.build()
    assert not killed.exists()
    write(killed / "usage_date=2026-11-02", [9])
    assert world.rows() == [(1,), (2,), (4,)]

    world.build()
    assert world.rows() == [(1,), (2,), (4,)]
    assert not killed.exists()


def goes_on_from(world, **choice):
    """Return the tables that the next build goes on from."""
    with open_lake(world.lake) as opened:
        return [name for _, name in world.begin(opened, **choice).state.tables]


@pytest.mark.parametrize("lost", ["tables", "tables/state.json", f"tables/marts/{MART}"])
def test_a_build_goes_on_only_from_tables_that_are_there(world, lost):
    world.build()
    assert goes_on_from(world) == [MART]
    lost = world.engine.storage / lost
    shutil.rmtree(lost) if lost.is_dir() else lost.unlink()

    with pytest.raises(BuildFailed, match="lacks what builds wrote there"):
        build_marts(world.lake, target=world.target)
    assert goes_on_from(world, is_full=True) == []

    world.engine.ends = False
    with pytest.raises(BuildFailed, match="SIGKILL"):
        world.build("--full-refresh")
    assert goes_on_from(world) == []


def test_builds_of_two_machines_go_on_from_each_other(world):
    world.build()
    for number in range(2):
        world.change_machine()
        world.engine.touched = {"2026-11-03": [number]}
        world.build()

        assert world.rows() == sorted([(1,), (2,), (number,)])
    assert [shown["shown"] for shown in world.engine.shown] == [
        0,
        *(shown["version"] for shown in world.engine.shown[:-1]),
    ]


def test_the_days_of_a_build_count_even_if_the_clock_was_put_back(world):
    world.build()
    world.change_state(latest="2999-12-31 00:00:00+00:00")
    for number in (4, 5):
        world.engine.touched = {"2026-11-03": [number]}
        world.build()

    assert world.rows() == [(1,), (2,), (5,)]
    versions = [folder.name for folder in sorted(world.engine.tables.iterdir())]
    assert versions[1:] == ["29991231T000000000002"]
    assert world.state["shown"] == world.engine.shown[-1]["version"]


def test_a_killed_build_and_the_next_one_never_write_into_one_folder(world):
    world.build()
    world.change_state(latest="2999-12-31 00:00:00+00:00")
    world.engine.touched, world.engine.ends = {"2026-11-02": [7]}, False
    with pytest.raises(BuildFailed):
        world.build()
    [_, killed] = sorted(world.engine.tables.iterdir())
    world.engine.touched, world.engine.ends = {"2026-11-02": [8]}, True
    world.build()

    assert not killed.exists()
    assert world.rows() == [(3,), (8,)]


def test_what_a_catalog_was_shown_is_of_an_earlier_version_even_if_the_clock_was_put_back(world):
    world.build()
    world.change_state(shown=10**17)
    world.build()

    assert world.engine.shown[-1]["version"] > 10**17


def test_a_lake_in_a_folder_that_does_not_know_the_storage_was_restored(world):
    world.build()
    assert goes_on_from(world) == [MART]
    shutil.rmtree(world.work.parent)

    assert goes_on_from(world) == []


@pytest.mark.parametrize(
    "members",
    [
        {"tables": [{"schema": "marts; drop"}]},
        {"tables": [{"versions": ["../../others"]}]},
        {"tables": [{"versions": []}]},
        {"tables": [{"versions": ["20200101"]}]},
        {"latest": "soon"},
        {"latest": None},
        {"tables": 7},
        {"views": [["staging", "a b", "select 1"]]},
        {"shown": "new"},
    ],
)
def test_a_damaged_note_of_what_was_built_is_an_error_that_names_it(world, members):
    world.build()
    first = world.state["tables"][0]
    if isinstance(members.get("tables"), list):
        members = {"tables": [first | members["tables"][0]]}
    world.change_state(**members)

    with pytest.raises(BuildFailed, match=r"tables/state.json is damaged") as raised:
        world.build()
    assert "fleetlake build --full" in raised.value.remedy


def test_after_a_good_build_the_engines_catalog_is_known(world):
    world.build()
    world.build()

    first, second = world.engine.shown
    assert (first["shown"], second["shown"]) == (0, first["version"])
    assert not any(table["is_other"] for table in world.engine.shown[1]["mirrored"])


@pytest.mark.parametrize(("status", "ends"), [("success", False), ("error", True)])
def test_after_a_build_that_was_killed_or_failed_the_engine_is_shown_all_again(world, status, ends):
    world.build()
    world.engine.status, world.engine.ends = status, ends
    with suppress(BuildFailed):
        world.build()

    world.engine.ends = True
    world.build()

    shown = world.engine.shown[-1]
    assert not shown["shown"]
    assert all(table["is_other"] for table in shown["mirrored"])
    assert [table["name"] for table in shown["made"]] == [MART]


def test_an_engine_without_the_same_storage_is_an_error_that_says_so(world):
    world.engine.is_mounted = False

    with pytest.raises(BuildFailed, match="What spark built could not be read from") as raised:
        world.build()
    assert "has this folder at the same path" in raised.value.remedy


def test_a_storage_that_is_a_link_has_its_own_path_for_the_engine_and_the_real_one_in_the_list(
    world, tmp_path
):
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)

    target = target_of("spark", link)
    world.engine.storage = target.storage
    world.build()

    assert str(target.storage) == str(link)
    assert (world.work / "storages").read_text() == str(real.resolve())


def test_what_killed_builds_left_goes_before_the_next_one_writes(world):
    world.build()
    storage = world.engine.storage
    left = [
        storage / "mirror/raw/routers/mirror_day=all/mirror_version=1",
        world.engine.tables / "20200101T000000000000",
    ]
    for folder in left:
        write(folder, [3])
    world.engine.ends = False

    with pytest.raises(BuildFailed):
        world.build()

    assert not any(folder.exists() for folder in left)
    world.engine.ends = True
    world.build()
    assert world.rows() == [(1,), (2,), (3,)]


@pytest.mark.parametrize(("words", "stays"), [((), True), (("--full-refresh",), False)])
def test_the_table_of_a_model_that_was_removed_goes_with_a_full_build(world, words, stays):
    world.build()
    folder = world.engine.storage / "tables/marts/removed/20200101T000000000000"
    write(folder, [3])
    [table] = world.state["tables"]
    world.change_state(
        tables=[table, {**table, "name": "removed", "versions": [folder.name]}],
    )

    world.build(*words)

    assert folder.exists() is stays


def changed_manifest(world, **members):
    """Change members of the manifest of a world's mirror."""
    file = world.engine.storage / "mirror" / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **members}))


@pytest.mark.parametrize("folder", ["mirror", "tables"])
def test_a_storage_with_folders_of_others_is_refused(world, folder):
    write(world.engine.storage / folder / "sales/2026/01", [3])

    with pytest.raises(SettingsError, match=rf"storage/{folder} was not made by builds"):
        world.build()
    assert not [*world.work.glob("storages")]  # so an erasure does not empty it


def test_the_storage_of_another_lake_is_refused(world):
    world.build()
    changed_manifest(world, lake="another")

    with pytest.raises(SettingsError, match="storage/mirror was not made by builds"):
        world.build()


def test_a_damaged_manifest_of_a_storage_that_builds_have_used_is_replaced(world):
    world.build()
    (world.engine.storage / "mirror" / "manifest.json").write_text("{")

    world.build()

    assert all(table["is_other"] for table in world.engine.shown[-1]["mirrored"])


@pytest.mark.parametrize("other", [{"made_at": "2020-01-01 00:00:00+00"}, {"snapshot": 10**6}])
def test_the_mirror_of_a_lake_that_was_restored_since_is_made_anew(world, other):
    world.build()
    changed_manifest(world, **other)

    world.build()

    assert all(table["is_other"] for table in world.engine.shown[-1]["mirrored"])


def test_files_of_others_among_the_tables_stay(world):
    world.build()
    write(world.engine.storage / "tables/sales/2026/01", [3])

    world.build()

    assert [*world.engine.storage.glob("tables/sales/2026/01/*.parquet")]


@pytest.mark.parametrize(
    ("lake", "is_half_done", "left"),
    [(None, False, []), (None, True, []), ("another", False, ["mirror", "tables"])],
)
def test_an_erasure_empties_the_lakes_storage_after_the_folder_of_builds_was_deleted(
    world, lake, is_half_done, left
):
    world.build()
    if lake:
        changed_manifest(world, lake=lake)
        world.change_state(lake=lake)
    shutil.rmtree(world.work)
    if is_half_done:
        shutil.rmtree(world.engine.storage / "mirror")

    settings = Settings(lake=world.lake, build_storage=world.engine.storage)
    forget_scratch(world.lake, own_storages(settings))

    assert sorted(folder.name for folder in world.engine.storage.iterdir()) == left


class Catalog:
    """Spark's catalog, as the macros see it: what its schemas, tables and views are."""

    def __init__(self, comment, tables=(), views=(), shown=0):
        self.answers = {
            "describe schema extended state": [("Properties", f"((fleetlake.shown,{shown}))")],
            "describe schema marts": [("Comment", comment), ("Location", "/warehouse")],
            "show tables in marts": [("marts", name, False) for name in (*tables, *views)],
            "show views in marts": [("marts", name, False) for name in views],
        }
        self.ran = []

    def run(self, query):
        """Note a query, and answer it. All other schemas are ours."""
        self.ran.append(query)
        return self.answers.get(
            query, [("Comment", OURS)] if query.startswith("describe schema") else []
        )

    def raise_compiler_error(self, message):
        raise ValueError(message)

    def show(self, made, *, shown, views=()):
        text = (project_folder() / "macros" / "spark.sql").read_text()
        text = re.sub(r"{% materialization.*?endmaterialization %}", "", text, flags=re.DOTALL)
        macros = jinja2.Environment(extensions=["jinja2.ext.do"]).from_string(text)
        module = macros.make_module({"run_query": self.run, "exceptions": self})
        module.show_tables(
            mirrored=[], made=made, views=views, shown=shown, version=9, storage="/mnt/fleet"
        )
        return [query for query in self.ran if query.startswith(("drop", "create "))]


OURS = "Built by fleetlake in /mnt/fleet"
MADE = [
    {"schema": "marts", "name": name, "place": "/mnt/fleet/tables", "column": "", "days": {}}
    for name in ("lost", "stays", "was_a_view")
]


VIEWS = [("marts", "was_a_table", "select 1"), ("marts", "stays_a_view", "select 2")]


def catalog(shown):
    views = ["was_a_view", "stays_a_view"]
    return Catalog(OURS, tables=["stays", "was_a_table"], views=views, shown=shown)


def test_a_catalog_that_noted_the_last_build_is_shown_what_it_lacks():
    at_last = catalog(8)

    made = at_last.show(MADE, shown=8, views=[("marts", "lost_too", "select 1"), VIEWS[1]])

    assert [
        query.split(" using ")[0] for query in made if not query.startswith("create schema")
    ] == [
        "drop table if exists marts.lost",
        "create table marts.lost",
        "create or replace view marts.lost_too as select 1",
    ]
    assert "alter schema state set dbproperties ('fleetlake.shown' = '9')" in at_last.ran


@pytest.mark.parametrize(("noted", "shown"), [(7, 8), (0, 0), (8, 0)])
def test_a_catalog_that_has_not_noted_the_last_build_is_shown_everything(noted, shown):
    made = catalog(noted).show(MADE, shown=shown, views=VIEWS)

    assert [query for query in made if query.startswith("drop")] == [
        "drop table if exists marts.lost",
        "drop table if exists marts.stays",
        "drop view if exists marts.was_a_view",
        "drop table marts.was_a_table",
    ]
    assert sum(query.startswith("create table") for query in made) == len(MADE)
    assert sum(query.startswith("create or replace view") for query in made) == len(VIEWS)


@pytest.mark.parametrize("comment", ["", "Built by fleetlake in /mnt/another"])
def test_a_schema_of_others_in_the_catalog_is_refused(comment):
    with pytest.raises(ValueError, match="schema marts is not the one built by fleetlake"):
        Catalog(comment, tables=["stays"]).show(MADE, shown=0)
