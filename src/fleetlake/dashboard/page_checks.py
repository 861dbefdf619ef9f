"""What is wrong with a page: its format, and its queries over a published snapshot."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from fleetlake.dashboard.open_snapshots import OpenSnapshots, PublishedSnapshot
from fleetlake.dashboard.page_format import Fault, drawn_columns
from fleetlake.dashboard.panels import DashboardPage, Panel, own_pages
from fleetlake.dashboard.parameters import PARAMETERS, typed
from fleetlake.errors import FleetlakeError, LakeError, SettingsError
from fleetlake.publishing.snapshot_folders import published_folder
from fleetlake.settings import Settings
from fleetlake.text.wording import counted, did_you_mean

_TEXTS = {"carrier": "x", "search": "x", "table": "snapshot_tables", "sort": ""}
_DAYS = ("from", "to", "day", "at")
GIVEN: Mapping[str, str] = {
    name: _TEXTS.get(name, "2026-01-01" if name in _DAYS else "1") for name in PARAMETERS
}
"""A value of each parameter, to try a query with."""


def check_own_pages(settings: Settings) -> str | None:
    """Return in words what was checked of the project's pages; None without one.

    Raises: SettingsError naming each file, panel and key that is wrong, and what to do.
    """
    pages = own_pages()
    if not pages:
        return None
    snapshots = OpenSnapshots(published_folder(settings))
    found = f"{counted(len(pages), 'page')} checked"
    try:
        with snapshots.lease() as snapshot:
            faults = [(page, fault) for page in pages for fault in faults_of(page, snapshot)]
    except LakeError:
        faults = [(page, fault) for page in pages for fault in page.faults]
        found += ", but not the SQL: nothing is published yet"
    finally:
        snapshots.close()
    if faults:
        raise SettingsError(
            "\n".join(f"{page.file}: {fault} {fault.remedy}" for page, fault in faults),
            remedy="Correct these files: docs/how-to/dashboard.md describes their keys.",
        )
    return found


def faults_of(page: DashboardPage, snapshot: PublishedSnapshot) -> Iterator[Fault]:
    """Yield what is wrong with a page: at first with its file, then with its queries."""
    yield from page.faults
    for panel in page.panels.values():
        if not panel.fault:
            yield from _query_faults(panel.of_table(GIVEN["table"]), snapshot)


def _query_faults(panel: Panel, snapshot: PublishedSnapshot) -> Iterator[Fault]:
    """Yield what is wrong with a panel's query and its filters, and with what the panel names."""
    for mart in panel.marts:
        if mart not in snapshot.columns:
            meant = did_you_mean(mart, snapshot.columns)
            remedy = f"{meant}The page Tables lists what is published."
            what = f"The published snapshot has no {mart}."
            yield Fault(panel=panel.name, key="marts", what=what, remedy=remedy)
            return
    columns = None
    for name in ("", *panel.filters):
        needed = (*panel.needs, name) if name else panel.needs
        try:
            found = _columns(panel, needed, snapshot)
        except FleetlakeError as error:
            key = f"filters.{name}" if name else "sql"
            yield Fault(panel=panel.name, key=key, what=error.what, remedy=error.remedy)
            if not name:
                return
        else:
            columns = columns or found
    yield from _name_faults(panel, columns or [], snapshot)


def _name_faults(panel: Panel, columns: list[str], snapshot: PublishedSnapshot) -> Iterator[Fault]:
    """Yield the marts and columns that a panel should name, or names and there are not."""

    def fault(key: str, what: str, remedy: str) -> Fault:
        return Fault(panel=panel.name, key=key, what=what, remedy=remedy)

    for mart in sorted(_tables_read(panel, snapshot) & snapshot.described.tables - {*panel.marts}):
        what = f"The query reads {mart}, which is not named."
        yield fault("marts", what, f"Add {mart!r} to `marts`.")
    named = {f"of.{column}": text for column, text in panel.of.items()} | {"since": panel.since}
    for key, text in named.items():
        mart, _, column = text.split(",")[0].partition(".")
        if text and column not in snapshot.columns.get(mart, {}):
            yield fault(key, f"There is no column {mart}.{column}.", "Write mart.column.")
    for key, column in [*((f"of.{one}", one) for one in panel.of), *drawn_columns(panel.draw)]:
        if column not in columns:
            has = f"The query has {', '.join(columns)}."
            yield fault(key, f"The query has no column {column!r}.", has)


def _columns(panel: Panel, names: tuple[str, ...], snapshot: PublishedSnapshot) -> list[str]:
    """Return the columns of a panel's query without running it. Raises: FleetlakeError."""
    texts = {name: GIVEN[name] for name in names}
    values = typed(texts, as_of=snapshot.described.as_of)
    columns: list[str] = snapshot.rows(*snapshot.statement(panel, values, rows=0)).column_names
    return columns


def _tables_read(panel: Panel, snapshot: PublishedSnapshot) -> set[str]:
    """Return the tables that a query names, as DuckDB parses it; none of metrics."""
    if panel.metrics:
        return set()
    sql = panel.sql.replace("{filters}", "").replace("{order}", "")
    parsed = snapshot.rows("select json_serialize_sql($sql) as tree", {"sql": sql})
    tree = json.loads(parsed.column("tree")[0].as_py())
    return {*_named(tree, "BASE_TABLE", "table_name")}


def _named(tree: Any, kind: str, key: str) -> Iterator[str]:
    if isinstance(tree, dict):
        if tree.get("type") == kind:
            yield tree[key]
        for one in tree.values():
            yield from _named(one, kind, key)
    elif isinstance(tree, list):
        for one in tree:
            yield from _named(one, kind, key)
