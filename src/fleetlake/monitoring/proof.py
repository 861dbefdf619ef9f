"""The proof of an answer: the streams that it rests on, until when they are complete, what is not.

A stream that a mart read is as complete as it was when the marts were built. Lists have no times to
prove: they are as the service listed them when they were last read.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from fleetlake.account import stream_name
from fleetlake.endpoints import ENDPOINTS, NOT_DESCRIBED, PUSHED
from fleetlake.lake import Lake
from fleetlake.lake.ducklake import SNAPSHOT_ID, columns_in
from fleetlake.lake.gaps import Gap, gaps
from fleetlake.lake.guard import Reads
from fleetlake.lake.run_log import stale_marts
from fleetlake.marts.catalogue import sources_of
from fleetlake.monitoring.streams import StreamStatus, between, stream_faults, stream_statuses
from fleetlake.planning.intervals import BEGINNING
from fleetlake.text.wording import counted

FRESHNESS = "pipeline_freshness"
"""The mart that says how far each stream was read when the marts were built."""

MOST_NAMES = 3
MOST_REASONS = 5


@dataclass(frozen=True, kw_only=True)
class AnswerProof:
    """What an answer rests on, in UTC. `snapshot_id` is the lake's newest one before the answer.

    All streams are complete from `complete_from` (None: as far back as the service held them) until
    `complete_until`, but for what `not_complete_because` says. `slowest` are the streams that end
    there. `partial_day` is the UTC day in which that is. `notes` are no losses.
    """

    snapshot_id: int
    tables: tuple[str, ...]
    streams: tuple[StreamStatus, ...]
    gaps: tuple[Gap, ...]
    complete_from: datetime | None
    complete_until: datetime | None
    slowest: tuple[str, ...]
    not_complete_because: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        """Whether nothing is known to be missing until `complete_until`."""
        return not self.not_complete_because

    @property
    def partial_day(self) -> str | None:
        """The UTC day that is complete only in part; days after it have no complete data."""
        return f"{self.complete_until:%Y-%m-%d}" if self.complete_until else None

    def as_dict(self) -> dict[str, Any]:
        """Return the proof for JSON."""
        streams = [asdict(one) for one in self.streams]
        lost = [asdict(one) for one in self.gaps]
        told = {"is_complete": self.is_complete, "partial_day": self.partial_day}
        return {**told, **vars(self), "streams": streams, "gaps": lost}

    def lines(self) -> Iterator[str]:
        """Yield the proof in words: one line if nothing is missing; none if it rests on nothing."""
        names = [*dict.fromkeys(stream.name for stream in self.streams)]
        if not (names or self.not_complete_because or self.notes):
            return
        rests = ", ".join(names) if len(names) <= MOST_NAMES else counted(len(names), "stream")
        state = " as last listed" if names else ""
        if self.complete_until:
            begun = f" from {self.complete_from:%Y-%m-%d %H:%M}" if self.complete_from else ""
            state = f"{begun} until {self.complete_until:%Y-%m-%d %H:%M} UTC"
        if len(names) > MOST_NAMES and self.slowest:
            rests += f", the slowest is {self.slowest[0]}"
        word = ("Complete" if names else "Not proven") if self.is_complete else "Not complete"
        yield f"{word}{state} ({rests or 'no stream'}; snapshot {self.snapshot_id})"
        yield from (f"- because {reason}" for reason in self.not_complete_because[:MOST_REASONS])
        if more := self.not_complete_because[MOST_REASONS:]:
            yield f"- and {counted(len(more), 'reason')} more: see `fleetlake status`."
        yield from (f"- {note}" for note in self.notes)


@dataclass(frozen=True)
class _Built:
    """How far a stream was read when the marts were built."""

    holes: int
    until: datetime | None


def prove(lake: Lake, reads: Reads, *, now: datetime) -> AnswerProof:
    """Return the proof of an answer that is read from an open lake after this call."""
    with lake.single_snapshot():
        return _Proving(lake, reads, now).proof()


class _Proving:
    """One proof: the streams that are read directly, and those through marts."""

    def __init__(self, lake: Lake, reads: Reads, now: datetime) -> None:
        self._lake, self._reads, self._now = lake, reads, now
        self._direct, self._built_from = set[str](), set[str]()
        self._unknown, self._marts = list[str](), list[str]()
        for table in sorted(reads.tables):
            schema, _, name = table.partition(".")
            if schema in {"raw", "current"}:
                self._direct.add(name)
            elif schema in {"marts", "staging"}:
                self._add_model(schema, name)
        self._built = self._as_built() if self._built_from else {}
        if FRESHNESS in self._marts:  # it says something of every stream
            self._built_from |= {endpoint for _, endpoint in self._built}

    def _add_model(self, schema: str, name: str) -> None:
        sources = sources_of(name)
        if sources is None:
            self._unknown.append(f"{schema}.{name}")
            return
        self._marts += [name] if schema == "marts" else []
        raw = {source[4:] for source in sources if source.startswith("raw.")}
        (self._built_from if schema == "marts" else self._direct).update(raw)

    def _as_built(self) -> dict[tuple[str, str], _Built]:
        """Return how far the streams were read when the marts were built."""
        is_there = (FRESHNESS, "endpoint") in columns_in(self._lake, "marts")
        rows = is_there and self._lake.rows(
            f"select account_profile, endpoint, holes, all_proven_until from lake.marts.{FRESHNESS}"
        )
        return {(profile, endpoint): _Built(*values) for profile, endpoint, *values in rows or ()}

    def proof(self) -> AnswerProof:
        names = {name for name in self._direct | self._built_from if name in ENDPOINTS}
        streams = stream_statuses(self._lake, now=self._now, calls_per_minute=0, only=names)
        read = [stream for stream in streams if stream.loaded_at or stream.rows]
        lost = [gap for gap in gaps(self._lake) if gap.endpoint in names]
        timed = [stream for stream in read if not ENDPOINTS[stream.endpoint].is_snapshot]
        ends = {one.name: self._until(one) for one in timed}
        until = min(filter(None, ends.values()), default=None)
        starts = [one.complete_from for one in timed if one.complete_from not in {None, BEGINNING}]
        [(snapshot,)] = self._lake.rows(SNAPSHOT_ID)
        return AnswerProof(
            snapshot_id=int(snapshot),
            tables=tuple(sorted(self._reads.tables)),
            streams=tuple(streams),
            gaps=tuple(lost),
            complete_from=max(filter(None, starts), default=None),
            complete_until=until,
            slowest=tuple(name for name, end in ends.items() if end == until and until),
            not_complete_because=tuple(self._reasons(streams, lost)),
            notes=tuple(self._notes(streams)),
        )

    def _until(self, stream: StreamStatus) -> datetime | None:
        """Return until when a stream is complete, in the marts too if they are read."""
        built = self._built.get((stream.account_profile, stream.endpoint))
        through_marts = stream.endpoint in self._built_from and built
        ends = [stream.complete_until, built.until if through_marts and built else None]
        return min(filter(None, ends), default=None)

    def _reasons(self, streams: list[StreamStatus], lost: list[Gap]) -> Iterator[str]:
        """Yield why the answer is not complete, each with what to do."""
        if "AT" in self._reads.beyond:
            yield (
                "it reads an older snapshot (AT), which this does not prove: "
                "`fleetlake.open().as_of(...)` in Python does."
            )
        for name in sorted(self._reads.beyond - {"AT"}):
            yield f"it reads {name}, whose streams are not known: read a table."
        for name in sorted((self._direct | self._built_from) - ENDPOINTS.keys()):
            yield f"raw.{name} is no longer loaded: {NOT_DESCRIBED}."
        for name in self._unknown:
            yield f"no model says what {name} rests on: add one with `ref` and `source`."
        stale = {one.mart: one.since_at for one in stale_marts(self._lake)}
        for mart in filter(stale.__contains__, self._marts):
            since = f"{stale[mart]:%Y-%m-%d %H:%M}"
            yield f"the mart {mart} is stale since {since}: run `fleetlake build`, which says why."
        yield from _gap_lines(lost)
        begun = {s.endpoint for s in streams if s.loaded_at or s.rows or s.unavailable}
        for name in dict.fromkeys(s.endpoint for s in streams if s.endpoint not in begun):
            yield f"{name} was never loaded: run `fleetlake ingest {name}`."
        for stream in streams:
            if stream.rows and not (stream.loaded_at or stream.unavailable):
                yield f"{stream.name} is only partly loaded: {stream.load}."
            yield from stream_faults(stream, self._now, shows_values=False)
            yield from self._not_yet_built(stream)

    def _not_yet_built(self, stream: StreamStatus) -> Iterator[str]:
        built = self._built.get((stream.account_profile, stream.endpoint))
        if built and stream.endpoint in self._built_from and built.holes > stream.holes:
            name = stream.name
            yield f"a hole of {name} is filled, but not in the marts: run `fleetlake build`."

    def _notes(self, streams: list[StreamStatus]) -> Iterator[str]:
        """Yield what limits the answer without being a loss."""
        for stream in streams:
            if stream.unavailable:
                yield f"the account {stream.account_profile} may not read {stream.endpoint}."
        if f"raw.{PUSHED.name}" in self._reads.tables:
            yield f"raw.{PUSHED.name} holds what the service pushed, which nothing proves complete."
        if any(stream.complete_until != self._until(stream) for stream in streams):
            yield "the marts lack what was loaded since they were built: run `fleetlake build`."


def _gap_lines(lost: list[Gap]) -> Iterator[str]:
    """Yield a line for each stream that lost records, acknowledged or not."""
    by_stream: dict[str, list[Gap]] = {}
    for gap in lost:
        by_stream.setdefault(stream_name(gap.endpoint, gap.account_profile), []).append(gap)
    for name, of_stream in by_stream.items():
        when = between(min(g.start_at for g in of_stream), max(g.end_at for g in of_stream))
        yield (
            f"{name} lost records that the service deleted unread{when}: "
            "see `fleetlake records gaps`."
        )
