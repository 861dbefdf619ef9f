"""The console blocks of README and documentation pages: their commands, and running them."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.support.processes import Service, environment

BLOCK = re.compile(
    r"""^ *```(?P<kind>\w+)(?: title="(?P<file>[^"]+)")?\n(?P<text>.*?)^ *```$""",
    re.DOTALL | re.MULTILINE,
)
LOADS = re.compile(r"fleetlake (doctor|ingest|build|publish|records verify|backfill)")
STAYS = re.compile(
    r"fleetlake (simulate(?!.*--print-env)|prefect up|dashboard|receive|alerts watch)\b"
)


def console_commands(page: str) -> list[str]:
    """Return the commands of a page's console blocks, without their prompts.

    >>> console_commands("```console\\n$ make demo  # now\\nDone.\\n```")
    ['make demo  # now']
    """
    blocks = [block["text"] for block in BLOCK.finditer(page) if block["kind"] == "console"]
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


def runnable(commands: Iterable[str]) -> Iterator[str]:
    """Yield the commands that end by themselves and belong to this environment."""
    for line in commands:
        if line.startswith(("fleetlake ", "python -c ")) and not STAYS.search(line):
            yield line


def plain_settings(folder: Path) -> dict[str, str]:
    """Return an environment without settings, except for the state folder."""
    without = {k: v for k, v in environment(folder).items() if not k.startswith("FLEETLAKE_")}
    return without | {"FLEETLAKE_STATE": str(folder / "state")}


def run_command(line: str, *, folder: Path, fleet: Service, **variables: str) -> None:
    """Run a command in a folder, and require that it succeeds.

    Loads read the simulated service into a separate lake, unless `fleet` has no address; all other
    commands use the folder's own lake.
    """
    env = plain_settings(folder)
    if fleet.url and LOADS.search(line):
        env = environment(folder / "fleet", fleet.url, published=folder / "data" / "published")
    words = shlex.split(line.split("  #", maxsplit=1)[0])
    words[0] = str(Path(sys.executable).parent / Path(words[0]).name)
    done = subprocess.run(
        words,
        env=env | variables,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
