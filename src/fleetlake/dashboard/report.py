"""A report: the dashboard's pages in one file that opens without a server, for mail and archives.

The file holds the rows of each panel, the scripts that draw them and the outlines of the map. Its
content security policy allows its own scripts by their digest and no request at all.

The newest report is a file that is replaced; of dated ones, the latest are kept.
"""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Any

from fleetlake.dashboard.open_snapshots import OpenSnapshots, PublishedSnapshot
from fleetlake.dashboard.page_shell import rendered
from fleetlake.dashboard.panels import Panel, dashboard_pages, panel_at
from fleetlake.dashboard.parameters import typed
from fleetlake.dashboard.result_formats import as_json
from fleetlake.errors import FleetlakeError
from fleetlake.lake_address import DEMO_MARK
from fleetlake.machine.atomic_files import unfinished, write_atomically
from fleetlake.machine.io_faults import output_lost
from fleetlake.publishing.snapshot_folders import description_of
from fleetlake.settings import Settings

ENTRY = "report"
FIRST = ("compare", "changes")
"""The panel of the first page."""

DAYS = 7
QUERY_SECONDS = 60.0
LIBRARIES = ("uPlot.iife.min.js", "topojson-client.min.js")
STYLES = ("vendor/uPlot.min.css", "fleet.css")

_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?:async )?(?:function|const|class) (\w+)", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Report:
    """A report as one HTML file, the UTC day of its newest event, and the snapshot it is of."""

    html: str
    day: date
    snapshot: str


def read_report(published: Path, *, last: str = "7d") -> Report:
    """Return the report over the newest snapshot of a published folder.

    `last` is the range of time, as in the dashboard's addresses. Raises: LakeError.
    """
    snapshots = OpenSnapshots(published)
    try:
        with snapshots.lease() as snapshot:
            described = snapshot.described
            return Report(
                html=_document(snapshot, last), day=described.as_of.date(), snapshot=described.name
            )
    finally:
        snapshots.close()


def bundled(entry: str) -> str:
    """Return a script with all modules that it imports, as one text without imports."""
    found: dict[str, str] = {}

    def add(name: str) -> None:
        if name in found:
            return
        text = (_static() / f"{name}.js").read_text(encoding="utf-8")
        for _, imported in _IMPORT.findall(text):
            add(imported)
        found[name] = text

    add(entry)
    return "\n".join(_wrapped(name, text) for name, text in found.items())


def _wrapped(name: str, text: str) -> str:
    """Return a module as a call that gives what it exports."""
    exported = _EXPORT.findall(text)
    body = _IMPORT.sub(lambda one: f"const {{{one[1]}}} = module_{one[2]};", text)
    body = re.sub(r"^export \{[^}]*\};$", "", body, flags=re.MULTILINE)
    body = re.sub(r"^export ", "", body, flags=re.MULTILINE)
    given = f"return {{ {', '.join(exported)} }};"
    return f"const module_{name} = await (async () => {{\n{body}\n{given}\n}})();"


def _document(snapshot: PublishedSnapshot, last: str) -> str:
    panels = [*_panels()]
    told = snapshot.described
    held = {
        "answers": {panel.path: _answer(snapshot, panel, last) for panel in panels},
        "given": {"last": last},
        "as_of": int(told.as_of.timestamp() * 1000),
        "published_at": int(told.published_at.timestamp() * 1000),
        "outlines": {
            "world": _topology("countries-50m.json", "countries"),
            "us": _topology("counties-10m.json", "states"),
        },
    }
    data = json.dumps(held, separators=(",", ":")).replace("<", "\\u003c")
    vendored = [(_static() / "vendor" / name).read_text(encoding="utf-8") for name in LIBRARIES]
    scripts = [*vendored, bundled(ENTRY)]
    styles = "\n".join((_static() / name).read_text(encoding="utf-8") for name in STYLES)
    policy = (
        f"default-src 'none'; img-src data:; style-src {_digest(styles)}; "
        f"script-src {' '.join(map(_digest, scripts))}; base-uri 'none'; form-action 'none'"
    )
    return rendered(
        "report.html",
        policy=policy,
        styles=styles,
        day=told.as_of.date().isoformat(),
        first=_first_panel(last),
        appendix=[*_appendix(panels)],
        data=data,
        libraries=vendored,
        drawn_by=scripts[-1],
    )


def _first_panel(last: str) -> Panel:
    """Return the panel of what changed: the last whole days compared with those before."""
    days = int(last[:-1]) if re.fullmatch(r"[1-9]\d?d", last) else DAYS
    since = "since last week" if days == DAYS else f"in {days} days"
    return replace(panel_at(*FIRST), title=f"What changed {since}", about="")


def _panels() -> Iterator[Panel]:
    """Yield the panels of a report: those that need no choice."""
    for page in dashboard_pages().values():
        if page.is_listed:
            for panel in page.panels.values():
                if panel.is_in_report and not panel.needs:
                    yield panel


def _appendix(panels: Sequence[Panel]) -> Iterator[tuple[str, list[Panel]]]:
    """Yield the title and the panels of each page, but for the first page."""
    for page in dashboard_pages().values():
        shown = [one for one in panels if one.page == page.slug and (one.page, one.name) != FIRST]
        if shown:
            yield page.title, shown


def _answer(snapshot: PublishedSnapshot, panel: Panel, last: str) -> Mapping[str, Any]:
    """Return what the dashboard answers for a panel, or why it cannot."""
    values = typed({"last": last}, as_of=snapshot.described.as_of)
    try:
        sql, parameters = snapshot.statement(panel, values, rows=panel.limit + 1)
        found = snapshot.rows(sql, parameters, seconds=QUERY_SECONDS)
    except FleetlakeError as problem:
        return {"what": str(problem)}
    as_of = int(snapshot.described.as_of.timestamp() * 1000)
    more = {"is_cut": found.num_rows > panel.limit, "as_of": as_of, "ignored": [], "since": None}
    answer: dict[str, Any] = json.loads(as_json(panel, found.slice(0, panel.limit), more=more))
    return answer


def _topology(name: str, kept: str) -> dict[str, Any]:
    """Return vendored outlines with one of their objects, and only the arcs that it uses."""
    whole = json.loads((_static() / "vendor" / name).read_text(encoding="utf-8"))
    geometries = whole["objects"][kept]["geometries"]
    places: dict[int, int] = {}

    def renumbered(arcs: Any) -> Any:
        if isinstance(arcs, list):
            return [renumbered(arc) for arc in arcs]
        place = places.setdefault(arcs if arcs >= 0 else ~arcs, len(places))
        return place if arcs >= 0 else ~place

    shapes = [
        {"type": shape["type"], "arcs": renumbered(shape["arcs"])}
        for shape in geometries
        if "arcs" in shape
    ]
    return {
        "type": "Topology",
        "transform": whole["transform"],
        "objects": {kept: {"type": "GeometryCollection", "geometries": shapes}},
        "arcs": [whole["arcs"][place] for place in places],
    }


def _digest(text: str) -> str:
    """Return the source that a content security policy has for an inline text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _static() -> Any:
    return files("fleetlake.dashboard") / "static"


NEWEST = "fleet-report.html"
KEEP = 8
"""Dated reports that are kept: two months of weekly ones."""

_DATED = re.compile(r"fleet-report-\d{4}-\d{2}-\d{2}\.html")


def reports_folder(settings: Settings) -> Path:
    """Return the folder of the reports; a demo lake has its own, as for what it publishes."""
    if (settings.lake / DEMO_MARK).exists():
        return settings.lake / "reports"
    return settings.reports


def write_report(report: Report, file: Path, *, makes_folder: bool = False) -> int:
    """Write a report to a file, or replace it; return its bytes.

    Raises: OutputLost if the file cannot be written, or its folder is missing and not to be made.
    """
    try:
        if makes_folder:
            file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, report.html)
    except OSError as error:
        otherwise = ": --output of the command, FLEETLAKE_REPORTS of scheduled reports"
        raise output_lost("The report", file, error, otherwise=otherwise) from None
    return len(report.html.encode())


def write_newest_report(published: Path, folder: Path) -> Path:
    """Replace the folder's report over the last 7 days; return its file.

    Raises: LakeError without a snapshot; OutputLost if it cannot be written.
    """
    return _write_current(published, lambda _: folder / NEWEST)


def write_dated_report(
    published: Path, folder: Path, *, last: str = "7d", keep: int = KEEP
) -> Path:
    """Write a report named by the day of its newest event, and remove all but the latest `keep`.

    Returns its file; a report of the same day is replaced. Raises: as above.
    """
    file = _write_current(
        published, lambda report: folder / f"fleet-report-{report.day.isoformat()}.html", last=last
    )
    for old in dated_reports(folder)[max(keep, 1) :]:
        old.unlink(missing_ok=True)
    return file


def _write_current(published: Path, named: Callable[[Report], Path], *, last: str = "7d") -> Path:
    """Write a report of the newest snapshot; return its file.

    An erasure publishes, then removes the reports. So a report whose snapshot was replaced before
    its file was there is written again: it may hold what was erased.
    """
    while True:
        report = read_report(published, last=last)
        file = named(report)
        write_report(report, file, makes_folder=True)
        if description_of(published).get("snapshot") == report.snapshot:
            return file
        file.unlink(missing_ok=True)


def dated_reports(folder: Path) -> list[Path]:
    """Return the dated reports of a folder, the latest first."""
    if not folder.is_dir():
        return []
    found = (file for file in folder.iterdir() if _DATED.fullmatch(file.name))
    return sorted(found, reverse=True)


def remove_reports(folder: Path) -> int:
    """Remove the reports of a folder, the newest and all dated ones; return how many there were."""
    if not folder.is_dir():
        return 0
    found = dated_reports(folder) + [file for file in [folder / NEWEST] if file.is_file()]
    for file in found:
        file.unlink()
    for left in unfinished(folder, f"{re.escape(NEWEST)}|{_DATED.pattern}"):
        left.unlink(missing_ok=True)
    return len(found)
