"""The folders of published snapshots: which of them are ours, the newest, and old ones removed."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fleetlake.errors import LakeError
from fleetlake.lake.connection import lake_errors
from fleetlake.lake_address import DEMO_MARK, LakeAddress
from fleetlake.machine.file_locks import FOR_EVER, file_lock
from fleetlake.machine.io_faults import not_writable
from fleetlake.settings import Settings

DATABASE = "fleet.duckdb"
FOLDER = "fleet_folder"
"""DuckDB variable that holds a snapshot's folder where it was moved or copied to."""

DESCRIPTION = "snapshot.json"
MARKER = ".fleetlake"
"""Marker file, created first in every snapshot: folders without it are never removed."""

NEXT_LINK = "next"
"""Temporary name of the new link, until it is renamed to the published one."""

STAMP = "%Y%m%dT%H%M%S.%fZ"
_NAME = re.compile(r"\d{8}T\d{6}\.\d{6}Z")


def published_folder(settings: Settings) -> Path:
    """Return the published folder; a demo lake has its own unless the settings name one."""
    if is_demo(settings.lake) and "published" not in settings.model_fields_set:
        return settings.lake / "published"
    return settings.published


def is_demo(lake: LakeAddress) -> bool:
    """Return whether a lake holds the demo's simulated fleet."""
    return (lake / DEMO_MARK).exists()


def published_raw(published: Path) -> list[str]:
    """Return the endpoints whose raw tables the newest snapshot holds."""
    tables = description_of(published).get("tables", {})
    return [name.removeprefix("raw_") for name in tables if name.startswith("raw_")]


def is_published_coarse(published: Path) -> bool:
    """Return whether the newest snapshot has rounded places and no names."""
    return bool(description_of(published).get("is_coarse"))


def description_of(snapshot: Path) -> dict[str, Any]:
    """Return the description of a snapshot; empty if there is none, or if it is damaged."""
    try:
        described = json.loads((snapshot / DESCRIPTION).read_bytes())
    except (OSError, ValueError):
        return {}
    return described if isinstance(described, dict) else {}


def snapshot_names(published: Path) -> list[str]:
    """Return the names of the finished snapshots, newest first: the times of publication, in UTC.

    They are in the format of `STAMP`.
    """
    store = published.absolute().parent / f".{published.name}"
    found = filter(is_snapshot, store.iterdir()) if store.is_dir() else ()
    finished = [folder.name for folder in found if (folder / DESCRIPTION).is_file()]
    return sorted(finished, reverse=True)


def remove_earlier(published: Path) -> int:
    """Remove all snapshots but the newest; return their number. Readers of those lose them."""
    published = published.absolute()
    store = published.parent / f".{published.name}"
    with folder_errors(published), file_lock(store / "publish.lock", seconds=FOR_EVER):
        before = sum(map(is_snapshot, store.iterdir()))
        clear(store, keep=published, and_keep=published.resolve())
        return before - sum(map(is_snapshot, store.iterdir()))


@contextmanager
def folder_errors(published: Path) -> Iterator[None]:
    """Turn errors of the system or DuckDB about the published folder into a LakeError."""
    try:
        with lake_errors(published):
            yield
    except OSError as error:
        setting = "FLEETLAKE_PUBLISHED or --to"
        raise not_writable("published", published, error, setting=setting) from None


def switch(published: Path, new: Path) -> None:
    """Point the link to the new snapshot by a rename, so that it exists at all times."""
    link = new.parent / NEXT_LINK
    link.unlink(missing_ok=True)
    link.symlink_to(os.path.relpath(new, published.parent), target_is_directory=True)
    link.replace(published)


def clear(store: Path, *, keep: Path, and_keep: Path | None = None) -> None:
    """Remove unfinished snapshots, and finished ones except the current and the previous one."""
    current = keep.resolve()
    snapshots = [folder for folder in store.iterdir() if is_snapshot(folder)]
    finished = [folder for folder in snapshots if (folder / DESCRIPTION).is_file()]
    kept = {current, and_keep} if and_keep else {current, *(path.resolve() for path in finished)}
    for folder in snapshots:
        if folder.resolve() not in kept:
            shutil.rmtree(folder)


def is_snapshot(folder: Path) -> bool:
    """Return whether `publish` created a folder, judged by its name and its files."""
    if folder.is_symlink() or not folder.is_dir() or not _NAME.fullmatch(folder.name):
        return False
    return (folder / MARKER).is_file() or (folder / DESCRIPTION).is_file()


def require_own_link(published: Path, store: Path) -> None:
    """Raise LakeError unless `published` is missing or a link to a snapshot in the store."""
    is_link = published.is_symlink()
    is_ours = is_link and published.resolve().parent == store.resolve()
    if (is_link or published.exists()) and not is_ours:
        raise LakeError(
            f"{published} already exists and fleetlake did not publish it.",
            remedy="Move it elsewhere, or set FLEETLAKE_PUBLISHED to another folder.",
        )


def refuse_other_link(link: Path) -> None:
    """Raise LakeError if a file or folder has the name of the temporary link."""
    if link.exists() and not link.is_symlink():
        raise LakeError(
            f"{link} already exists, and fleetlake needs that name for a symbolic link.",
            remedy="Move it elsewhere, or set FLEETLAKE_PUBLISHED to another folder.",
        )
