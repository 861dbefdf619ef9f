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
from fleetlake.marts.on_target import BuildTarget, TargetBuild, require_tables, target_of
from fleetlake.marts.plan import SCRATCH, work_folder
from fleetlake.marts.sql_project import project_folder
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

    @property
    def target(self):
        return BuildTarget("spark", self.engine.storage)

    def build(self, *words):
        with open_lake(self.lake) as opened:
            TargetBuild(
                target=self.target,
                lake=self.lake,
                work=self.work,
                file=self.work / SCRATCH,
                snapshot=newest_snapshot(opened),
                memory="1GB",
            ).run(opened, ["build", *words], self.engine, lambda _: None)

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


def is_kept(world, *, is_full=False):
    """Return whether the next build goes on from the tables of the one before."""
    require_tables(world.work, world.target, is_full=is_full)
    return (world.work / SCRATCH).exists()


def test_a_build_goes_on_only_from_tables_that_are_there(world):
    world.build()
    assert is_kept(world)
    shutil.rmtree(world.engine.tables)

    with pytest.raises(BuildFailed, match="lacks tables that builds wrote there"):
        build_marts(world.lake, target=world.target)
    assert not is_kept(world, is_full=True)
    assert not is_kept(world)  # as after a full build that was killed


def test_after_a_good_build_the_engines_catalog_is_known(world):
    world.build()
    world.build()

    assert [shown["is_known"] for shown in world.engine.shown] == [False, True]
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
    assert not shown["is_known"]
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
    assert world.rows() == [(1,), (2,), (3,)]


@pytest.mark.parametrize(("words", "stays"), [((), True), (("--full-refresh",), False)])
def test_the_table_of_a_model_that_was_removed_goes_with_a_full_build(world, words, stays):
    world.build()
    folder = world.engine.storage / "tables/marts/removed/20200101T000000000000"
    write(folder, [3])
    with duckdb.connect(world.work / SCRATCH) as connection:
        connection.execute(
            "INSERT INTO state.made (schema_name, name, versions)"
            " VALUES ('marts', 'removed', [$1])",
            [folder.name],
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


@pytest.mark.parametrize(("lake", "left"), [(None, []), ("another", ["mirror", "tables"])])
def test_an_erasure_empties_the_lakes_storage_after_the_folder_of_builds_was_deleted(
    world, lake, left
):
    world.build()
    if lake:
        changed_manifest(world, lake=lake)
    shutil.rmtree(world.work)

    settings = Settings(lake=world.lake, build_storage=world.engine.storage)
    forget_scratch(world.lake, own_storages(settings))

    assert sorted(folder.name for folder in world.engine.storage.iterdir()) == left


class Catalog:
    """Spark's catalog, as the macros see it: what its schemas, tables and views are."""

    def __init__(self, comment, tables=(), views=()):
        self.answers = {
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

    def show(self, made, *, is_known):
        text = (project_folder() / "macros" / "spark.sql").read_text()
        text = re.sub(r"{% materialization.*?endmaterialization %}", "", text, flags=re.DOTALL)
        macros = jinja2.Environment(extensions=["jinja2.ext.do"]).from_string(text)
        module = macros.make_module({"run_query": self.run, "exceptions": self})
        module.show_tables(
            mirrored=[], made=made, views=[], is_known=is_known, storage="/mnt/fleet"
        )
        return [query for query in self.ran if query.startswith(("drop", "create table"))]


OURS = "Built by fleetlake in /mnt/fleet"
MADE = [
    {"schema": "marts", "name": name, "place": "/mnt/fleet/tables", "column": "", "days": {}}
    for name in ("lost", "stays", "was_a_view")
]


def test_tables_are_shown_anew_unless_it_is_known_where_the_catalog_has_them():
    catalog = Catalog(OURS, tables=["stays"], views=["was_a_view"])

    lost = catalog.show(MADE, is_known=True)
    anew = Catalog(OURS, tables=["stays"], views=["was_a_view"]).show(MADE, is_known=False)

    assert [query.split()[2] for query in lost if query.startswith("create")] == ["marts.lost"]
    assert [query for query in anew if query.startswith("drop")] == [
        "drop table if exists marts.lost",
        "drop table if exists marts.stays",
        "drop view if exists marts.was_a_view",
    ]
    assert sum(query.startswith("create table") for query in anew) == len(MADE)


@pytest.mark.parametrize("comment", ["", "Built by fleetlake in /mnt/another"])
def test_a_schema_of_others_in_the_catalog_is_refused(comment):
    with pytest.raises(ValueError, match="schema marts is not the one built by fleetlake"):
        Catalog(comment, tables=["stays"]).show(MADE, is_known=False)
