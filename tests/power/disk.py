"""What is on a disk after the power fails, rebuilt from a record of file operations.

Only what was flushed is certain. A write that was not flushed may be on the disk whole, in part or
not at all; a name that was created, replaced or removed without a flush of its folder may have
changed or not. Two kinds of file systems are played:

JOURNAL: names change in their order, and any flush of one file flushes all earlier changes of
names, as ext4 and XFS do.
STRICT: only what POSIX promises. A flush of a folder is needed for its names, and the changes of
two folders reach the disk independently.
"""

import os
import random
import shutil
import struct
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Self

HEADER = struct.Struct("<B3xiiIIIq")
SECTOR = 512
SOURCE = Path(__file__).with_name("recorder.c")


class FileSystem(Enum):
    """How a disk orders what it was not told to flush."""

    JOURNAL = auto()
    STRICT = auto()


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One file operation of a process, as `recorder.c` writes it."""

    op: str
    pid: int
    fd: int
    path: str
    other: str
    data: bytes
    offset: int


def compiled_recorder(folder: Path, root: Path, log: Path) -> Path:
    """Compile `recorder.c`, which records in `log` what processes do to the files below `root`."""
    recorder = folder / "recorder.so"
    places = [f'-DROOT="{root}"', f'-DLOG="{log}"']
    words = ["cc", "-shared", "-fPIC", "-O1", *places, "-o", recorder, SOURCE]
    subprocess.run([*words, "-ldl", "-lpthread"], check=True)
    return recorder


def operations(log: Path) -> Iterator[Operation]:
    """Yield the operations of a record, in their order."""
    with log.open("rb") as file:
        while head := file.read(HEADER.size):
            op, pid, fd, path, other, data, offset = HEADER.unpack(head)
            yield Operation(
                op=chr(op),
                pid=pid,
                fd=fd,
                path=os.path.normpath(file.read(path).decode()) if path else "",
                other=os.path.normpath(file.read(other).decode()) if other else "",
                data=file.read(data),
                offset=offset,
            )


@dataclass(eq=False)
class Node:
    """A file, a folder (`content` is None) or a link to `target`; `flushed` is what is certain.

    `written` lists what was written since: an offset and data, or a new length and None.
    """

    content: bytearray | None = None
    target: str = ""
    flushed: bytes = b""
    written: list[tuple[int, bytes | None]] = field(default_factory=list)

    def write(self, offset: int, data: bytes | None) -> None:
        """Write data at an offset; without data, cut or extend the file."""
        assert self.content is not None
        apply(self.content, offset, data)
        self.written.append((offset, data))

    def flush(self) -> None:
        """Put everything written on the disk."""
        self.flushed = bytes(self.content or b"")
        self.written.clear()

    def after_cut(self, chance: random.Random) -> bytes:
        """Return the file's content after the power fails."""
        how = chance.choice(["nothing", "nothing", "everything", "some", "some"])
        if not self.written or how == "nothing":
            return self.flushed
        if how == "everything":
            return bytes(self.content or b"")
        kept = bytearray(self.flushed)
        for offset, data in self.written:
            if data is None:
                if chance.random() < 0.5:
                    apply(kept, offset, None)
                continue
            if chance.random() < 0.5:  # whole, or up to a sector
                length = chance.choice([len(data), chance.randrange(len(data) + 1)])
                apply(
                    kept, offset, data[: length - length % SECTOR if length < len(data) else length]
                )
        if len(self.content or b"") > len(kept) and chance.random() < 0.5:
            kept.extend(bytes(len(self.content or b"") - len(kept)))
        return bytes(kept)


def apply(content: bytearray, offset: int, data: bytes | None) -> None:
    """Write data into a file's content, or give it a length."""
    if data is None:
        del content[offset:]
    content.extend(bytes(max(0, offset - len(content))))
    if data:
        content[offset : offset + len(data)] = data


@dataclass(frozen=True)
class Rename:
    """A change of names: `path` now is `node` (None: nothing), and `source` no longer exists."""

    path: str
    node: Node | None
    source: str = ""


class Disk:
    """The files below a folder, as programs see them and as they are certain to be on the disk."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.names: dict[str, Node] = {str(root): Node()}
        for path in sorted(root.rglob("*")):
            if path.is_symlink():
                self.names[str(path)] = Node(target=str(path.readlink()))
            elif path.is_dir():
                self.names[str(path)] = Node()
            else:
                content = path.read_bytes()
                self.names[str(path)] = Node(content=bytearray(content), flushed=content)
        self.flushed_names = dict(self.names)
        self.pending: list[Rename] = []
        self._open: dict[tuple[int, int], Node] = {}

    def play(self, recorded: Sequence[Operation], system: FileSystem) -> Self:
        """Repeat the operations on this disk."""
        for one in recorded:
            self._play(one, system)
        return self

    def _play(self, one: Operation, system: FileSystem) -> None:
        key = (one.pid, one.fd)
        match one.op:
            case "c" | "o":
                if one.op == "c":
                    self._change(Rename(one.path, Node(content=bytearray())))
                self._open[key] = self._followed(one.path)
            case "x":
                del self._open[key]
            case "w" | "t":
                self._open[key].write(one.offset, one.data if one.op == "w" else None)
            case "f":
                self._flush(self._open[key], system)
            case "s":
                self._flush_all()
            case _:
                self._change(self._change_of_names(one))

    def _change_of_names(self, one: Operation) -> Rename:
        match one.op:
            case "m":
                return Rename(one.path, Node())
            case "y":
                return Rename(one.path, Node(target=one.other))
            case "u":
                return Rename(one.path, None)
            case "l":
                return Rename(one.other, self.names[one.path])
            case "r":
                return Rename(one.other, self.names[one.path], one.path)
        raise AssertionError(one.op)

    def _followed(self, path: str) -> Node:
        node = self.names[path]
        while node.target:
            path = os.path.normpath(Path(path).parent / node.target)
            node = self.names[path]
        return node

    def _change(self, change: Rename) -> None:
        rename(self.names, change)
        self.pending.append(change)

    def _flush(self, node: Node, system: FileSystem) -> None:
        node.flush()
        if system is FileSystem.JOURNAL:
            self._keep(self.pending)
        elif node.content is None:
            [folder] = [path for path, one in self.names.items() if one is node]
            self._keep([one for one in self.pending if folder_of(one) == folder])

    def _keep(self, changes: Sequence[Rename]) -> None:
        for change in changes:
            rename(self.flushed_names, change)
        self.pending = [one for one in self.pending if one not in changes]

    def _flush_all(self) -> None:
        for node in {id(node): node for node in self.names.values()}.values():
            node.flush()
        for node in self._open.values():
            node.flush()
        self._keep(list(self.pending))

    def cut_power(self, system: FileSystem, chance: random.Random) -> None:
        """Replace the folder with what may be on the disk if the power fails now."""
        names = dict(self.flushed_names)
        groups: dict[str, list[Rename]] = defaultdict(list)
        for change in self.pending:
            groups["" if system is FileSystem.JOURNAL else folder_of(change)].append(change)
        for changes in groups.values():
            for change in changes[: chance.randrange(len(changes) + 1)]:
                rename(names, change)
        shutil.rmtree(self.root)
        contents: dict[int, bytes] = {}
        for path, node in sorted(names.items()):
            if path != str(self.root) and not Path(path).parent.is_dir():
                continue  # its folder is not on the disk
            if node.target:
                Path(path).symlink_to(node.target)
            elif node.content is None:
                Path(path).mkdir(mode=0o700)
            else:
                # Two names of one file have the same content.
                contents.setdefault(id(node), node.after_cut(chance))
                Path(path).write_bytes(contents[id(node)])


def folder_of(change: Rename) -> str:
    """Return the folder whose names a change changes."""
    return str(Path(change.path).parent)


def rename(names: dict[str, Node], change: Rename) -> None:
    """Apply a change to names; a folder moves with everything in it."""
    below = f"{change.source}/"
    moved = [path for path in names if change.source and path.startswith(below)]
    for path in moved:
        names[f"{change.path}/{path.removeprefix(below)}"] = names.pop(path)
    if change.source and names.get(change.source) is change.node:
        del names[change.source]
    if change.node is None:
        names.pop(change.path, None)
        for path in [path for path in names if path.startswith(f"{change.path}/")]:
            del names[path]
    else:
        names[change.path] = change.node
