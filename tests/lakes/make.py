"""Makes a small lake of a release, for all later releases to open.

    python -m tests.lakes.make 0.2                      # by this release
    python -m tests.lakes.make 0.1 ../old-clone/src     # by the release in another clone

Every endpoint of a simulated service is loaded and every mart built, by that release's own
command. `lake.tar.xz` holds the lake's folder, `rows.json` what each of its tables held then.
"""

import json
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.lakes.digest import digests
from tests.support.processes import environment, fleetlake, service
from tests.support.sim import NOW

FLEET: dict[str, Any] = {"routers": 3, "days": 1, "now": NOW, "speed": 0}
"""The simulated fleet whose records the lakes hold."""

LAKES = Path(__file__).parent
ARCHIVE = "lake.tar.xz"
ROWS = "rows.json"
_LEFT_OUT = {"dbt", "locks"}  # a build makes these anew


def make(release: str, source: str | None, work: Path) -> None:
    """Write the lake of a release into its folder beside this module."""
    with service(**FLEET | {"now": NOW.isoformat()}) as fleet:
        env = environment(work, fleet.url) | ({"PYTHONPATH": source} if source else {})
        for words in (["ingest"], ["build"]):
            done = fleetlake(*words, env=env, timeout=1200)
            if done.returncode:
                sys.exit(done.stderr)
    target = LAKES / release
    target.mkdir(exist_ok=True)
    rows = json.dumps(digests(work / "lake"), indent=1)
    (target / ROWS).write_text(rows + "\n", encoding="utf-8")
    with tarfile.open(target / ARCHIVE, "w:xz", preset=9) as archive:
        archive.add(work / "lake", "lake", filter=_without_owner)


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if _LEFT_OUT & {*Path(member.name).parts}:
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def unpack(release: str, folder: Path) -> Path:
    """Unpack a copy of a release's lake; return its folder."""
    with tarfile.open(LAKES / release / ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder / "lake"


if __name__ == "__main__":
    with TemporaryDirectory() as made:
        make(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None, Path(made))
