"""What is measured: which records, at which latency, and loaded by which peer."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[2]
DLT_PYTHON = ROOT / ".venv-bench/bin/python"
# Published connectors, each in an environment of its own, because their requirements conflict.
AIRBYTE_SOURCE = ROOT / ".venv-bench-airbyte/bin/source-declarative-manifest"
SINGER_TAP = ROOT / ".venv-bench-singer/bin/tap-rest-api-msdk"
SINGER_TARGET = ROOT / ".venv-bench-singer-target/bin/target-jsonl"
KEYS = ("portal_api_id", "portal_api_key", "mgr_api_id", "mgr_api_key")


@dataclass(frozen=True, kw_only=True)
class Case:
    """Records of one resource, and how long each response takes.

    With `has_new_members`, each record has two members that its endpoint row does not declare.
    With `has_connectors`, published connectors load it too; its size keeps the bench short.
    """

    name: str
    resource: str
    records: int
    latency_ms: int
    has_new_members: bool = False
    has_connectors: bool = False

    @property
    def title(self) -> str:
        """Return the case in words, for tables and plots."""
        kind = {"alerts": "alerts", "activity_logs": "nested activity logs"}[self.resource]
        kind = f"{kind} with two new members" if self.has_new_members else kind
        title = f"{self.records:,} {kind}, {self.latency_ms} ms an answer"
        return f"{title}, with published connectors" if self.has_connectors else title


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A way to load the pages. `keeps` is true if it stores rows and can request only new ones.

    A published connector runs `programs` of its own, and only in cases that have connectors.
    """

    name: str
    about: str
    keeps: bool = True
    python: str = sys.executable
    programs: tuple[Path, ...] = ()

    @property
    def is_ours(self) -> bool:
        """Return whether this is fleetlake."""
        return self.name == "fleetlake"

    @property
    def is_installed(self) -> bool:
        """Return whether all its programs exist."""
        return all(program.exists() for program in (Path(self.python), *self.programs))

    def takes_part(self, case: Case) -> bool:
        """Return whether the peer is measured in a case."""
        return case.has_connectors or not self.programs

    def command(self, case: Case, url: str, folder: Path) -> list[str]:
        """Return the command that loads the case's pages from the server into the folder."""
        if self.is_ours:
            return [self.python, "-m", "fleetlake", "ingest", case.resource]
        module = f"tools.bench.peers.{self.name}"
        return [self.python, "-m", module, url, case.resource, str(folder)]


CASES = (
    Case(name="alerts", resource="alerts", records=500_000, latency_ms=0),
    Case(name="activity_logs", resource="activity_logs", records=200_000, latency_ms=0),
    Case(
        name="newer_activity_logs",
        resource="activity_logs",
        records=200_000,
        latency_ms=0,
        has_new_members=True,
    ),
    Case(name="far_alerts", resource="alerts", records=100_000, latency_ms=100),
    Case(
        name="fewer_alerts",
        resource="alerts",
        records=100_000,
        latency_ms=0,
        has_connectors=True,
    ),
)

PEERS = (
    Peer(name="floor", about="bare socket, decodes nothing", keeps=False),
    Peer(name="download", about="httpx, decodes nothing", keeps=False),
    Peer(name="script", about="httpx, orjson, pyarrow to Parquet"),
    Peer(name="dlt_best", about="dlt with Arrow tables to Parquet", python=str(DLT_PYTHON)),
    Peer(name="dlt_rest_api", about="dlt's REST source to DuckDB", python=str(DLT_PYTHON)),
    Peer(
        name="airbyte",
        about="Airbyte's declarative source, its messages in a file",
        programs=(AIRBYTE_SOURCE,),
    ),
    Peer(
        name="singer",
        about="Singer's REST tap and JSONL target",
        programs=(SINGER_TAP, SINGER_TARGET),
    ),
    Peer(name="fleetlake", about="fleetlake ingest, committed to the lake"),
)


def chosen(
    only: Sequence[str] = (), records: int | None = None
) -> tuple[tuple[Case, ...], tuple[Peer, ...]]:
    """Return the named cases and peers, or all if none is named; no case is larger than requested.

    Cases in which none of the peers takes part are left out.

    >>> cases, peers = chosen(["alerts", "floor", "fleetlake"], 1_000)
    >>> [case.title for case in cases], [peer.name for peer in peers]
    (['1,000 alerts, 0 ms an answer'], ['floor', 'fleetlake'])

    Raises: SystemExit for a name that is neither, and if no case is left.
    """
    known = [thing.name for thing in (*CASES, *PEERS)]
    if unknown := [name for name in only if name not in known]:
        raise SystemExit(f"There is no {', '.join(unknown)}: it takes {', '.join(known)}.")
    cases = tuple(c for c in CASES if c.name in only) or CASES
    peers = tuple(p for p in PEERS if p.name in only) or PEERS
    cases = tuple(c for c in cases if any(peer.takes_part(c) for peer in peers))
    if not cases:
        connected = ", ".join(case.name for case in CASES if case.has_connectors)
        raise SystemExit(f"Published connectors are measured only in {connected}.")
    if records is not None:
        cases = tuple(replace(case, records=min(case.records, records)) for case in cases)
    return cases, peers


def environment(**settings: str) -> dict[str, str]:
    """Return the environment of a measured process, without the user's settings."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("FLEETLAKE_")}
    named = {f"FLEETLAKE_{name.upper()}": value for name, value in settings.items()}
    return inherited | named | {"NO_COLOR": "1", "DO_NOT_TRACK": "1", "DLT_TELEMETRY": "0"}


def to_load(case: Case, url: str, folder: Path) -> dict[str, str]:
    """Return the environment of an ingest from the page server into a lake in the folder."""
    return environment(
        base_url=f"{url}/api/v2/",
        lake=f"{folder}/lake",
        state=f"{folder}/state",
        calls_per_minute="0",
        clock="service",
        # Concurrent calls: more would not help, because responses take no time.
        concurrency="32" if case.latency_ms else "8",
        **dict.fromkeys(KEYS, "bench"),
    )
