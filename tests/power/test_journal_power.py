"""Power loss while messages are stored: each one whose sender got an answer is in the journal."""

import random
import shutil
import subprocess
import sys
from pathlib import Path

from fleetlake.receiving.journal_table import ACKNOWLEDGED_FILE, require_whole
from tests.power.disk import Disk, FileSystem, Operation, compiled_recorder, operations
from tests.support.journals import bodies, write

CUTS = 60
WRITER = """
import asyncio
import sys
from pathlib import Path
from fleetlake.receiving.journal import open_journal
from tests.support.journals import delete, write

folder = Path(sys.argv[1])
asyncio.run(open_journal(folder).close())
for number in range(0, 60, 3):
    write(folder, *(b"%d " % one * (one * 97 % 900 + 1) for one in range(number, number + 3)))
    if number == 30:
        delete(folder, 15)
"""


def acknowledged(recorded: list[Operation]) -> int:
    """Return how many messages were acknowledged after some operations."""
    files: dict[tuple[int, int], str] = {}
    newest = 0
    for one in recorded:
        if one.op in "co":
            files[one.pid, one.fd] = one.path
        elif one.op == "w" and files.get((one.pid, one.fd), "").endswith(ACKNOWLEDGED_FILE):
            newest = int(one.data)
    return newest


def test_power_loss_at_any_moment_loses_no_acknowledged_message(tmp_path: Path) -> None:
    log, root = tmp_path / "operations", tmp_path / "disk"
    recorder = compiled_recorder(tmp_path, root, log)
    root.mkdir()
    variables = {
        "LD_PRELOAD": str(recorder),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    subprocess.run([sys.executable, "-c", WRITER, root / "journal"], env=variables, check=True)
    recorded, chance = [*operations(log)], random.Random(7)
    assert acknowledged(recorded) == 60

    for _ in range(CUTS):
        shutil.rmtree(root)
        root.mkdir()
        instant, system = chance.randrange(len(recorded) + 1), chance.choice([*FileSystem])
        before = acknowledged(recorded[:instant])
        Disk(root).play(recorded[:instant], system).cut_power(system, chance)
        write(root / "journal", b"99 the next message")
        found = {int(body.split()[0]) for body in bodies(root / "journal")}

        assert {*range(15 if before >= 33 else 0, before)} - found == set(), (instant, system)
        assert 99 in found
        require_whole(root / "journal", {}, is_full=True)
