"""A lake that random steps write and maintain, and dicts that say what each snapshot holds.

It runs on the DuckDB that is installed: `make engine-fuzz` runs it on several.
"""

from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import duckdb
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fleetlake.care.maintenance import shrink_files
from fleetlake.exporters.changes import Source, changes_since, mark_of
from fleetlake.lake.attach import READ_HISTORY, UNCHECKED, attach_statements
from fleetlake.lake.connection import Lake
from fleetlake.lake.ducklake import FILES_OR_CATALOG
from fleetlake.privacy.erase import purge_files

WEEK = timedelta(days=7)
SOURCE = Source(schema="raw", table="failovers", key=("id",))
EPOCH = "timestamptz '2026-01-01 00:00:00+00'"


class Row(NamedTuple):
    """The columns of a row beside its id; `ended` in seconds after the epoch."""

    value: int | None
    name: str
    ended: int | None


Rows = dict[int, Row]

CONDITIONS = {
    "value is null": lambda row: row.value is None,
    "value < 30": lambda row: row.value is not None and row.value < 30,
    "value >= 60": lambda row: row.value is not None and row.value >= 60,
    "value = 50": lambda row: row.value == 50,
    "name > 'm'": lambda row: row.name > "m",
    "name = 'changed'": lambda row: row.name == "changed",
    "ended is null": lambda row: row.ended is None,
    "ended is not null": lambda row: row.ended is not None,
    "ended < timestamptz '2026-01-01 00:00:20+00'": lambda row: (
        row.ended is not None and row.ended < 20
    ),
}
"""What queries ask and what deletes remove, in SQL and in Python."""

ANSWERS = {
    "count(*)": len,
    "count(value)": lambda rows: sum(row.value is not None for row in rows.values()),
    "count(ended)": lambda rows: sum(row.ended is not None for row in rows.values()),
    "min(value)": lambda rows: min(_values(rows), default=None),
    "max(value)": lambda rows: max(_values(rows), default=None),
    "min(name)": lambda rows: min((row.name for row in rows.values()), default=None),
    "max(id)": lambda rows: max(rows, default=None),
    "sum(value)::bigint": lambda rows: sum(_values(rows)) if [*_values(rows)] else None,
}

COLUMNS = f"id, value, name, epoch(ended)::bigint - epoch({EPOCH})::bigint"

LIVE = st.sampled_from([None, 0, 7, 29, 30, 50, 60, 99])
NAMES = st.sampled_from(["a", "b", "m", "n", "z", "ü"])
SEVERAL = st.sampled_from([1, 2, 9, 10, 11, 40, 100, 101, 300])
"""A load writes up to a hundred rows into the catalog, more into a file."""


def _values(rows):
    return (row.value for row in rows.values() if row.value is not None)


def connected(path, *, version=0, is_read_only=True):
    """Return a DuckDB with the lake attached, or one of its snapshots."""
    connection = duckdb.connect(config=UNCHECKED | {"threads": 1})
    connection.execute(
        f"{attach_statements(path, read_only=is_read_only, version=version)} USE lake;"
    )
    return connection


def asked(connection, table):
    """Return what all queries answer for a table."""
    parts = [f"(select count(*) from {table} where {condition})" for condition in CONDITIONS]
    parts += [f"(select {answer} from {table})" for answer in ANSWERS]
    parts += [f"(select list(({COLUMNS}) order by id) from {table})"]
    *answers, rows = connection.execute(f"select {', '.join(parts)}").fetchone()
    return answers, [tuple(row.values() if isinstance(row, dict) else row) for row in rows or []]


def expected(rows):
    """Return what all queries must answer."""
    answers = [sum(map(holds, rows.values())) for holds in CONDITIONS.values()]
    answers += [answer(rows) for answer in ANSWERS.values()]
    return answers, [(key, *row) for key, row in sorted(rows.items())]


class LakeMachine(RuleBasedStateMachine):
    """Writes, maintains and reads a lake with one raw table."""

    def __init__(self):
        super().__init__()
        self.folder = TemporaryDirectory()
        self.path = Path(self.folder.name)
        (self.path / "files").mkdir()
        (self.path / "locks").mkdir()
        self.lake = Lake(self.path, connected(self.path, is_read_only=False))
        self.lake.execute(FILES_OR_CATALOG)
        self.rows: Rows = {}
        self.history: dict[int, Rows] = {}
        self.pinned = []
        self.next_id = 0

    @initialize()
    def create(self):
        self.lake.execute("create schema raw; create schema meta")
        self.lake.execute("create table meta.exports (snapshot_id bigint)")
        self.lake.execute(
            "create table raw.failovers (id bigint, value bigint, name varchar, ended timestamptz)"
        )
        self.note()

    def note(self):
        """Keep the rows of the newest snapshot."""
        [(newest,)] = self.lake.rows("select max(snapshot_id) from lake.snapshots()")
        self.history[newest] = dict(self.rows)

    @rule(count=SEVERAL, value=LIVE, name=NAMES, ended=st.sampled_from(["all", "none", "some"]))
    def append(self, count, value, name, ended):
        for number in range(self.next_id, self.next_id + count):
            has_ended = ended == "all" or (ended == "some" and number % 2 == 0)
            spread = None if value is None else (value + number % 3) % 100
            self.rows[number] = Row(spread, name, number if has_ended else None)
        new = [(key, *self.rows[key]) for key in range(self.next_id, self.next_id + count)]
        self.next_id += count
        with self.lake.transaction():
            self.lake.execute(
                "insert into raw.failovers select unnest($1::bigint[]), unnest($2::bigint[]), "
                f"unnest($3::varchar[]), {EPOCH} "
                "+ to_seconds(unnest($4::bigint[]))",
                [list(column) for column in zip(*new, strict=True)],
            )
        self.note()

    @precondition(lambda self: self.rows)
    @rule(share=st.sampled_from([1, 2, 5, 50]), value=LIVE, is_ended=st.booleans())
    def upsert(self, share, value, is_ended):
        """Update some rows and insert one, in one transaction."""
        chosen = [key for key in self.rows if key % share == 0] or [*self.rows][:1]
        with self.lake.transaction():
            self.lake.execute(
                "update raw.failovers set value = $1::bigint, name = 'changed', ended = "
                f"case when $2 then {EPOCH} + to_seconds(id) "
                "else ended end where id in (select unnest($3::bigint[]))",
                [value, is_ended, chosen],
            )
            self.lake.execute(
                "insert into raw.failovers values ($1, null, 'new', null)", [self.next_id]
            )
        for key in chosen:
            self.rows[key] = Row(value, "changed", key if is_ended else self.rows[key].ended)
        self.rows[self.next_id] = Row(None, "new", None)
        self.next_id += 1
        self.note()

    @precondition(lambda self: self.rows)
    @rule(condition=st.sampled_from([*CONDITIONS]))
    def delete(self, condition):
        self.lake.execute(f"delete from raw.failovers where {condition}")
        holds = CONDITIONS[condition]
        self.rows = {key: row for key, row in self.rows.items() if not holds(row)}
        self.note()

    @rule()
    def end_all(self):
        """End every running failover: afterwards no null is left in a column."""
        self.lake.execute(
            f"update raw.failovers set ended = {EPOCH} + to_seconds(id) where ended is null"
        )
        ended = {
            key: row._replace(ended=key) for key, row in self.rows.items() if row.ended is None
        }
        self.rows |= ended
        self.note()

    @rule()
    def pin(self):
        """Let builds and readers begin here, which read later."""
        newest = max(self.history)
        self.pinned.append((newest, connected(self.path, version=newest)))
        reader = connected(self.path)
        reader.execute(f"{READ_HISTORY} begin")
        reader.execute("select id from lake.current_snapshot()").fetchall()
        self.pinned.append((newest, reader))

    @rule(has_rule=st.sampled_from([True, True, False]))
    def maintain(self, has_rule):
        """Run the steps of `fleetlake maintain`, with and without a retention rule."""
        shrink_files(self.lake, keep=WEEK, emptied=["failovers"] if has_rule else [])
        self.note()
        self.compare_all()

    @precondition(lambda self: any(number % 6 for number in sorted(self.history)[:-4]))
    @rule(every=st.sampled_from([2, 3]))
    def thin(self, every):
        """Expire some snapshots, as live builds do."""
        self.let_go()
        ended = [number for number in sorted(self.history)[:-4] if number % every]
        if not ended:
            return
        with self.lake.transaction():
            self.lake.execute(f"call ducklake_expire_snapshots('lake', versions => {ended})")
        self.lake.execute("call ducklake_cleanup_old_files('lake', cleanup_all => true)")
        self.history = {key: rows for key, rows in self.history.items() if key not in ended}

    @precondition(lambda self: len(self.history) > 12)
    @rule()
    def erase(self):
        """Remove the bytes of deleted rows, as `fleetlake erase` does; only one snapshot stays."""
        self.let_go()
        purge_files(self.lake)
        self.history.clear()
        self.note()
        self.compare_all()

    def let_go(self):
        """Close the readers of snapshots that go."""
        for _, reader in self.pinned:
            reader.close()
        self.pinned.clear()

    @invariant()
    def the_newest_rows_are_those_written(self):
        if self.history:
            assert asked(self.lake.connection, "raw.failovers") == expected(self.rows)

    def compare_all(self):
        """Compare every snapshot, as each way to read one shows it, and the change feed."""
        with closing(connected(self.path)) as reader:
            reader.execute(READ_HISTORY)
            for version, rows in self.history.items():
                at = f"raw.failovers at (version => {version})"
                assert asked(reader, at) == expected(rows), f"at version {version}"
            for version in self.history:
                if version + 1 in self.history:
                    self.compare_changes(version)
        for version, reader in self.pinned:
            try:
                found = asked(reader, "lake.raw.failovers")
            except (duckdb.IOException, duckdb.TransactionException):
                continue  # maintenance merged its files: that ends a reader, loudly
            assert found == expected(self.history[version]), f"pinned at version {version}"

    def compare_changes(self, version):
        """Bring the rows of a snapshot up to date as an export does, and compare them."""
        now = mark_of(self.lake, SOURCE)
        then = replace(now, snapshot_id=version)
        with self.lake.single_snapshot():
            changes = changes_since(self.lake, SOURCE, then, now)
            [(arrived,)] = self.lake.rows(f"select list(({COLUMNS})) from arrived")
        stale = set(changes.stale["id"].to_pylist())
        rows = [row for row in expected(self.history[version])[1] if row[0] not in stale]
        rows += [tuple(row) for row in arrived or []]
        assert sorted(rows) == expected(self.rows)[1], f"changes since version {version}"

    def teardown(self):
        try:
            self.compare_all()
            for version, rows in self.history.items():
                with closing(connected(self.path, version=version)) as reader:
                    found = asked(reader, "lake.raw.failovers")
                assert found == expected(rows), f"attached at version {version}"
        finally:
            self.let_go()
            self.lake.connection.close()
            self.folder.cleanup()
