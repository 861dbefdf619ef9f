"""A small file system of its own, for tests that fill it: a tmpfs that only their commands see.

The kernel lets any user mount one in a user namespace of his own, so this needs no privileges. A
process holds the namespace; commands enter it with `nsenter`, and the test sees its files below
the process's root in /proc.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.processes import command

_BALLAST = "ballast"
_MOUNT = 'mount -t tmpfs -o "$1" none "$2" && echo ready && exec cat'


@dataclass(frozen=True, kw_only=True)
class SmallDisk:
    """A file system at `folder` for commands, and at `seen` for the test."""

    folder: Path
    seen: Path
    enter: tuple[str, ...]

    @property
    def free(self) -> int:
        """The bytes that are free."""
        return shutil.disk_usage(self.seen).free

    def fill(self, *, leave: int = 0) -> None:
        """Take all space except some bytes."""
        with (self.seen / _BALLAST).open("ab") as file:
            while (lacking := self.free - leave) > 0:
                os.posix_fallocate(file.fileno(), file.tell(), lacking)
                file.seek(0, os.SEEK_END)

    def clear(self) -> None:
        """Give back what `fill` took."""
        (self.seen / _BALLAST).unlink()

    def fleetlake(self, *words: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
        """Run a fleetlake command in the file system."""
        return self.run(*command(*words), env=env)

    def run(self, *words: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
        """Run a program in the file system."""
        return subprocess.run(
            [*self.enter, *words],
            env=env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@contextmanager
def small_disk(folder: Path, options: str) -> Iterator[SmallDisk]:
    """Mount a tmpfs with some mount options at a new folder until the end of the block."""
    folder.mkdir()
    words = ["unshare", "--map-root-user", "--mount", "sh", "-c", _MOUNT, "sh", options]
    with subprocess.Popen(
        [*words, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdin
        assert holder.stdout
        assert holder.stdout.readline() == "ready\n", "this kernel refuses user namespaces"
        try:
            yield SmallDisk(
                folder=folder,
                seen=Path(f"/proc/{holder.pid}/root{folder}"),
                enter=(
                    "nsenter",
                    f"--target={holder.pid}",
                    "--user",
                    "--mount",
                    *("--preserve-credentials", "sh", "-c", 'cd "$0" && exec "$@"', str(folder)),
                ),
            )
        finally:
            holder.stdin.close()
