"""What a build has to compute: everything, a selection, or what stands on changed tables."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from fleetlake.lake import open_lake
from fleetlake.lake.changed_tables import changed_tables
from fleetlake.lake_address import LakeAddress
from fleetlake.marts.catalogue import news_sources
from fleetlake.marts.dbt import project_folder

SCRATCH = "build.duckdb"
_RECORD = "built.json"


@dataclass(frozen=True)
class Built:
    """A good build: the project as it was, and the snapshot of which it made everything.

    `snapshot` is None when only selections were ever built.
    """

    project: str
    snapshot: int | None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What dbt is to build, in its options, or None for nothing; and what to record after."""

    options: tuple[str, ...] | None
    is_full: bool
    record: Built | None


def plan_build(
    lake: LakeAddress, work: Path, *, select: str | None, is_full: bool, until: int
) -> Plan:
    """Return what to build of the lake's snapshot `until`, given what was built before.

    A selection says nothing of the rest: only a new scratch file is the project's after it.
    Until everything was built once, a selection takes along the models that it stands on.
    """
    last, project = last_built(work), _project_digest()
    is_full = is_full or last is None
    if select:
        record = last if (work / SCRATCH).exists() else Built(project, None)
        words = select.split()
        if last is None or last.snapshot is None:
            words = [_with_parents(word) for word in words]
        return Plan(options=("--select", *words), is_full=is_full, record=record)
    record = Built(project, until)
    if is_full or last is None or last.snapshot is None:
        return Plan(options=(), is_full=is_full, record=record)
    with open_lake(lake, read_only=True) as opened:
        changed = changed_tables(opened, last.snapshot, until)
    options = () if changed is None else _downstream(changed & news_sources())
    return Plan(options=options, is_full=False, record=record)


def _with_parents(selection: str) -> str:
    """Return a selection in dbt's words, and all models that it stands on.

    >>> _with_parents("trips"), _with_parents("+trips"), _with_parents("tag:a,trips+")
    ('+trips', '+trips', '+tag:a,+trips+')
    """
    parts = selection.split(",")
    return ",".join(part if part.startswith(("+", "@")) else f"+{part}" for part in parts)


def last_built(work: Path) -> Built | None:
    """Return the last good build; None if there was none, or of another project than now."""
    file = work / _RECORD
    if not file.exists() or not (work / SCRATCH).exists():
        return None
    built = Built(**json.loads(file.read_text()))
    return built if built.project == _project_digest() else None


def record_built(work: Path, built: Built | None) -> None:
    """Record a good build; None while the scratch file is nobody's."""
    file = work / _RECORD
    if built is None:
        file.unlink(missing_ok=True)
    else:
        file.write_text(json.dumps(asdict(built)))


def _downstream(sources: frozenset[str]) -> tuple[str, ...] | None:
    """Return dbt's options for all that stands on some sources; None for no source.

    Views are left out, since their rows change by themselves; the data tests on them are not.
    """
    if not sources:
        return None
    return (
        *("--select", *(f"source:{name}+" for name in sorted(sources))),
        *("--exclude", "config.materialized:view", "--indirect-selection", "empty"),
    )


def _project_digest() -> str:
    """Return what changes whenever any file of the dbt project does."""
    digest = hashlib.sha256()
    for path in sorted(project_folder().rglob("*")):
        if path.suffix in {".sql", ".yml", ".csv"}:
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()
