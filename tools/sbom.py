"""Write the software bill of materials: every package of requirements.lock, as CycloneDX 1.5.

`make sbom` writes dist/fleetlake-VERSION.cdx.json. The lock names versions and hashes; what each
package needs and under which licence it is comes from the environment that was installed from the
lock. `cyclonedx-bom`, the usual tool, reads such a lock too, but tells neither licences nor what
is needed at run time, and needs ten more packages.
"""

import json
import os
import re
import sys
import tomllib
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import Distribution, PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from fleetlake.machine.source_commit import source_commit

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements.lock"
OURS = "fleetlake"
DEVELOPMENT = "dev"
LONGEST_LICENCE = 80
"""Some packages put the whole text of their licence into its field."""

Extras = frozenset[str]


@dataclass(frozen=True)
class Locked:
    """One package of the lock; `marker` says on which machines it is installed."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]

    @property
    def purl(self) -> str:
        """Return the address by which tools know the package: pkg:pypi/NAME@VERSION."""
        return f"pkg:pypi/{self.name}@{self.version}"


def read_lock(text: str) -> Iterator[Locked]:
    r"""Yield the packages of a lock. Raises: ValueError for anything but a pinned package.

    >>> [one] = read_lock("a==1 ; python_version < '3.12' \\\n    --hash=sha256:0f\n")
    >>> one.purl, one.marker, one.hashes
    ('pkg:pypi/a@1', "python_version < '3.12'", ('0f',))
    """
    for line in text.replace("\\\n", "").splitlines():
        head, *hashes = re.split(r"\s+--hash=sha256:", line)
        pinned = re.fullmatch(r"([\w.-]+)(?:\[[^\]]+\])?==(\S+)(?:\s*;\s*(.+))?", head.strip())
        if pinned is None or not hashes:
            raise ValueError(f"not a package with its version and hashes: {head}")
        yield Locked(
            canonicalize_name(pinned[1]),
            pinned[2],
            (pinned[3] or "").strip(),
            tuple(sorted(one.strip() for one in hashes)),
        )


def installed(name: str) -> Distribution | None:
    """Return an installed package, None if this machine needs none of that name."""
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def needs_of(name: str, extras: Extras) -> Iterator[tuple[str, Extras]]:
    """Yield what a package with some extras needs, and with which extras.

    Needs of other machines count too, because the lock is for all of them.
    """
    package = installed(name)
    tools = development() if name == OURS and DEVELOPMENT in extras else ()
    for line in (*((package and package.requires) or ()), *tools):
        need = Requirement(line)
        by_extra = need.marker is not None and "extra" in str(need.marker)
        if not by_extra or any(need.marker.evaluate({"extra": extra}) for extra in extras):
            yield canonicalize_name(need.name), frozenset(need.extras)


def development() -> list[str]:
    """Return what development alone needs, as the project's dependency group says."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    tools: list[str] = project["dependency-groups"][DEVELOPMENT]
    return tools


def needs_below(extras: Extras) -> dict[str, set[str]]:
    """Return what each package needs that an installation of ours with these extras has."""
    needs: dict[str, set[str]] = {}
    seen: set[tuple[str, Extras]] = set()
    waiting = [(OURS, extras)]
    while waiting:
        package = waiting.pop()
        if package in seen:
            continue
        seen.add(package)
        found = list(needs_of(*package))
        needs.setdefault(package[0], set()).update(name for name, _ in found)
        waiting += found
    return needs


def own_extras() -> Extras:
    """Return the extras of fleetlake."""
    package = installed(OURS)
    assert package is not None
    return frozenset(package.metadata.get_all("Provides-Extra") or ())


def scope_of(name: str, required: Iterable[str], optional: Iterable[str]) -> str:
    """Return `required`, `optional` (an extra needs it) or `excluded` (development alone)."""
    if name in required:
        return "required"
    return "optional" if name in optional else "excluded"


def licences_of(package: Locked) -> list[dict[str, Any]]:
    """Return the licence that a package declares, in CycloneDX's form; nothing if unknown."""
    found = installed(package.name)
    if found is None or found.version != package.version:
        return []
    if expression := found.metadata.get("License-Expression"):
        return [{"expression": expression}]
    classifiers = found.metadata.get_all("Classifier") or []
    names = [c.rpartition(" :: ")[2] for c in classifiers if c.startswith("License :: ")]
    stated = (found.metadata.get("License") or "").strip()
    if not names and stated and "\n" not in stated and len(stated) <= LONGEST_LICENCE:
        names = [stated]
    return [{"license": {"name": name}} for name in names]


def component(package: Locked, scope: str) -> dict[str, Any]:
    """Return a package as a component of the bill."""
    found: dict[str, Any] = {
        "type": "library",
        "bom-ref": package.purl,
        "name": package.name,
        "version": package.version,
        "scope": scope,
        "hashes": [{"alg": "SHA-256", "content": one} for one in package.hashes],
        "purl": package.purl,
    }
    if licences := licences_of(package):
        found["licenses"] = licences
    if package.marker:
        found["properties"] = [{"name": "fleetlake:marker", "value": package.marker}]
    return found


def dependencies(packages: list[Locked], own: str) -> list[dict[str, Any]]:
    """Return which component needs which; a name may stand for a version per Python."""
    refs: dict[str, list[str]] = {OURS: [own]}
    for package in packages:
        refs.setdefault(package.name, []).append(package.purl)
    needs = needs_below(own_extras() | {DEVELOPMENT})
    return [
        {
            "ref": ref,
            "dependsOn": sorted(
                purl for need in needs.get(name, ()) if need != OURS for purl in refs.get(need, ())
            ),
        }
        for name in sorted(refs)
        for ref in refs[name]
    ]


def bill_of(lock: str, *, written_at: datetime) -> dict[str, Any]:
    """Return the bill of materials of a lock; the same lock and time give the same bill."""
    packages = list(read_lock(lock))
    own = f"pkg:pypi/{OURS}@{version(OURS)}"
    required = needs_below(frozenset())
    optional = needs_below(own_extras() - {DEVELOPMENT})
    commit = source_commit() or "unknown"
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{own} {commit} {lock}')}",
        "version": 1,
        "metadata": {
            "timestamp": f"{written_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": OURS,
                "version": version(OURS),
                "purl": own,
                "properties": [{"name": "fleetlake:commit", "value": commit}],
            },
        },
        "components": [component(p, scope_of(p.name, required, optional)) for p in packages],
        "dependencies": dependencies(packages, own),
    }


def main() -> None:
    """Write the bill and print its path."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    now = datetime.fromtimestamp(int(epoch), UTC) if epoch else datetime.now(UTC)
    bill = bill_of(LOCK.read_text("utf-8"), written_at=now)
    file = ROOT / "dist" / f"{OURS}-{version(OURS)}.cdx.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(bill, indent=2) + "\n", "utf-8")
    sys.stdout.write(f"{file.relative_to(ROOT)}: {len(bill['components'])} components\n")


if __name__ == "__main__":
    main()
