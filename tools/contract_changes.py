"""Changes of the marts that break their readers, compared with the last release.

`make check` runs it. A mart or column may be removed or retyped once CHANGELOG.md names it under
"Unreleased"; new ones break nothing. The contract of a release is in its tag. Without such a tag,
the contract is compared with the first one that was committed.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from fleetlake.analysis.data_contract import released_contract
from fleetlake.marts.catalogue import exposures

ROOT = Path(__file__).parents[1]
CONTRACT = ROOT / "docs" / "reference" / "marts.odcs.yaml"

Contract = dict[str, Any]


def breaking(before: Contract, after: Contract) -> Iterator[tuple[str, str]]:
    """Yield each mart, as `mart`, or column, as `mart.column`, and what a reader misses of it.

    >>> old = {"schema": [{"name": "trips", "properties": [{"name": "distance_km"}]}]}
    >>> [*breaking(old, {"schema": [{"name": "trips", "properties": []}]})]
    [('trips.distance_km', 'is removed')]
    """
    tables = {table["name"]: table for table in after["schema"]}
    for table in before["schema"]:
        name, now = table["name"], tables.get(table["name"])
        if now is None:
            yield name, "is removed"
            continue
        if _key(table) and _key(table) != _key(now):
            yield name, f"has the key {_key(now)} instead of {_key(table)}"
        columns = {column["name"]: column for column in now["properties"]}
        for column in table["properties"]:
            path, found = f"{name}.{column['name']}", columns.get(column["name"])
            if found is None:
                yield path, "is removed"
            elif found["physicalType"] != column["physicalType"]:
                yield path, f"is {found['physicalType']} instead of {column['physicalType']}"
            elif column.get("required") and not found.get("required"):
                yield path, "may be empty"


def _key(table: dict[str, Any]) -> list[str]:
    """Return the columns of a table's key, in alphabetical order."""
    named = [column["name"] for column in table["properties"] if column.get("primaryKey")]
    rules = table.get("quality", ())
    return sorted(named or [name for rule in rules for name in rule["arguments"]["properties"]])


def users(mart: str) -> list[str]:
    """Return the exposures that use a mart."""
    return [one["name"] for one in exposures() if f"ref('{mart}')" in one["depends_on"]]


def released(folder: Path = ROOT) -> tuple[str, Contract]:
    """Return the contract of the last release in a clone, and what that is called."""
    file = CONTRACT.relative_to(ROOT)
    tag = _git(folder, "describe", "--tags", "--abbrev=0", "--match", "v*").strip()
    first = _git(folder, "log", "--diff-filter=A", "--format=%h", "--", str(file)).split()
    for version in filter(None, (tag, *first[-1:])):
        if text := _git(folder, "show", f"{version}:{file}"):
            return version, yaml.safe_load(text)
    return "the committed contract", yaml.safe_load((folder / file).read_text("utf-8"))


def _git(folder: Path, *words: str) -> str:
    """Return what a git command prints; nothing if it fails, e.g. outside of a clone."""
    done = subprocess.run(
        ["git", "-C", folder, *words], check=False, capture_output=True, text=True
    )
    return done.stdout if done.returncode == 0 else ""


def unnamed(changes: Iterator[tuple[str, str]], changelog: str) -> list[str]:
    """Return a line for each breaking change that the changelog does not name as unreleased."""
    unreleased = changelog.partition("## [Unreleased]\n")[2].partition("\n## [")[0]
    said = set(re.findall(r"`([\w.]+)`", unreleased))
    return [
        f"{path} {what}; used by {', '.join(users(path.split('.')[0])) or 'no exposure'}"
        for path, what in changes
        if path not in said
    ]


def main() -> None:
    """Print the breaking changes that the changelog does not name. Raises: SystemExit for any."""
    version, before = released()
    lines = unnamed(
        breaking(before, released_contract()), (ROOT / "CHANGELOG.md").read_text("utf-8")
    )
    if lines:
        sys.exit(
            f"These changes break what reads the marts since {version}:\n  "
            + "\n  ".join(lines)
            + "\nKeep them, or name each under Unreleased in CHANGELOG.md, e.g. `mart.column`."
        )


if __name__ == "__main__":
    main()
