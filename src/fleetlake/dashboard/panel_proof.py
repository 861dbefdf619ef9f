"""What a panel's rows rest on: the streams of its marts, as far as they were read for the snapshot.

A snapshot says it of itself: `pipeline_freshness` how far each stream was read, `snapshot.json`
what was lost, set aside and not built.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from fleetlake.account import DEFAULT_PROFILE, stream_name
from fleetlake.dashboard.open_snapshots import Described, PublishedSnapshot
from fleetlake.dashboard.panels import Panel
from fleetlake.endpoints import ENDPOINTS
from fleetlake.marts.catalogue import sources_of
from fleetlake.monitoring.proof import FRESHNESS
from fleetlake.text.wording import counted

_STREAMS = f"""
    select account_profile, endpoint, holes, all_proven_until from {FRESHNESS}
    where endpoint in (select unnest($names)) order by all
"""
_OURS = ("snapshot_", "findings")
"""Start the names of tables that hold what fleetlake and its users did, not the service."""

MOST_REASONS = 5


def panel_proof(snapshot: PublishedSnapshot, panel: Panel) -> dict[str, Any]:
    """Return until when a panel's rows are complete, and why they are not, each with a command."""
    own = {FRESHNESS} if panel.metrics else set()  # it says there until when to count
    marts = tuple(m for m in panel.marts if not m.startswith(_OURS) and m not in own)
    found = snapshot.proofs.get(marts)
    if found is None:
        found = snapshot.proofs[marts] = _proof(snapshot, marts)
    return found


def _proof(snapshot: PublishedSnapshot, marts: Sequence[str]) -> dict[str, Any]:
    names = sorted({name for mart in marts for name in _endpoints(mart)})
    if FRESHNESS not in snapshot.described.tables:
        reasons, ends = [f"the snapshot has no {FRESHNESS}: run `fleetlake build`."], []
    else:
        rows = snapshot.rows(_STREAMS, {"names": names}).to_pylist()
        ends = [row["all_proven_until"] for row in rows if row["all_proven_until"]]
        reasons = [*_reasons(snapshot.described, marts, names, rows)]
    until = min(ends, default=None)
    return {
        "is_complete": not reasons,
        "complete_until": until and int(until.timestamp() * 1000),
        "not_complete_because": reasons,
        "streams": names,
        "in_words": [*_words(until, reasons)] if names or reasons else [],
    }


def _endpoints(mart: str) -> list[str]:
    """Return the endpoints that a published table rests on."""
    sources = sources_of(mart) or {mart.replace("raw_", "raw.", 1)}
    names = (source.partition(".")[2] for source in sources if source.startswith("raw."))
    return [*ENDPOINTS] if mart == FRESHNESS else [name for name in names if name in ENDPOINTS]


def _reasons(
    told: Described, marts: Sequence[str], names: Sequence[str], rows: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    for mart in marts:
        if mart in told.stale:
            yield f"the mart {mart} is stale: run `fleetlake build`, which says why."
        if sources_of(mart) is None and not _endpoints(mart):
            yield f"no model says what {mart} rests on."
    known = told.unavailable.union(names if FRESHNESS in marts else (r["endpoint"] for r in rows))
    for name in filter(lambda name: name not in known, names):
        yield f"{name} was never loaded: run `fleetlake ingest {name}`."
    for row in rows:
        yield from _of_stream(told, row)
    for name in names:
        if lost := [gap for gap in told.gaps if gap["endpoint"] == name]:
            start, end = min(g["start_at"] for g in lost), max(g["end_at"] for g in lost)
            between = f"between {start[:16]} and {end[:16]}".replace("T", " ")
            yield (
                f"{name} lost records that the service deleted unread {between}: "
                "see `fleetlake records gaps`."
            )


def _of_stream(told: Described, row: Mapping[str, Any]) -> Iterator[str]:
    profile, endpoint = row["account_profile"], row["endpoint"]
    name = stream_name(endpoint, profile)
    if row["holes"]:
        option = "" if profile == DEFAULT_PROFILE else f" --profile {profile}"
        load = f"fleetlake ingest {endpoint}{option}"
        yield f"{name} has {counted(row['holes'], 'hole')}: run `{load}`."
    if aside := told.set_aside.get((profile, endpoint)):
        refused = counted(aside, "record")
        yield f"{refused} of {name} could not be stored: see `fleetlake records quarantine`."


def _words(until: datetime | None, reasons: Sequence[str]) -> Iterator[str]:
    state = f"until {until:%Y-%m-%d %H:%M} UTC" if until else "as last listed"
    yield f"{'Not complete' if reasons else 'Complete'} {state}"
    yield from (f"because {reason}" for reason in reasons[:MOST_REASONS])
    if more := reasons[MOST_REASONS:]:
        yield f"and {counted(len(more), 'reason')} more: see `fleetlake status`."
