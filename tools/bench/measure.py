"""The cost of one command in its own process, as the kernel reports it at the end.

CPU time includes the processes that the command started and waited for. Memory is the peak of the
whole process tree: the kernel's own record for a single process, and for several the sum of their
memory (shared pages count once), sampled ten times a second. A child
starts with the size of the bench, so the bench stays small. Needs Linux.
"""

import os
import select
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

LOOK_SECONDS = 0.1


@dataclass(frozen=True, kw_only=True)
class Measure:
    """The cost of one process and its descendants, and what they requested from the page server.

    Of several processes at once, it is their sum, and `busiest_cpu_seconds` that of the busiest.
    """

    cpu_seconds: float
    wall_seconds: float
    peak_mb: float
    calls: int = 0
    server_cpu_seconds: float = 0.0
    busiest_cpu_seconds: float = 0.0


def measure(command: Sequence[str], environment: Mapping[str, str]) -> tuple[Measure, str]:
    """Run a command to its end; return its cost and its output.

    Raises: SystemExit with the command's last output if it fails.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        began = time.perf_counter()
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=err)
        peak_of_tree = _watch(process.pid)
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
        process.returncode = status
        out.seek(0)
        err.seek(0)
        if status:
            raise SystemExit(f"{' '.join(command)} failed:\n{err.read()[-2000:]}")
        taken = Measure(
            cpu_seconds=used.ru_utime + used.ru_stime,
            wall_seconds=wall,
            peak_mb=max(used.ru_maxrss / 1024, peak_of_tree),
        )
        return taken, out.read()


def _watch(pid: int) -> float:
    """Wait for the end of a process; return the peak memory of it and its descendants, in MB."""
    ended, peak = os.pidfd_open(pid), 0.0
    try:
        while not select.select([ended], [], [], LOOK_SECONDS)[0]:
            peak = max(peak, mb_of_tree(pid))
    finally:
        os.close(ended)
    return peak


def mb_of_tree(pid: int) -> float:
    """Return the current memory of a process and its descendants, or 0 if it has no descendants."""
    tree = _tree(pid)
    return sum(map(_mb_of, tree)) if len(tree) > 1 else 0.0


def _tree(pid: int) -> list[int]:
    """Return a process and all its descendants, including those in their own sessions."""
    found = [pid]
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += _tree(int(child))
    return found


def _mb_of(pid: int) -> float:
    """Return a process's memory in MB, with its part of shared pages; 0 once it has ended."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0
