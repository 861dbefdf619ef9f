"""What a check found: each damaged file, and each disagreement within the lake."""

from dataclasses import dataclass, field
from enum import StrEnum

from fleetlake.care.integrity.listing import ListedFile
from fleetlake.text.wording import counted


class DamageKind(StrEnum):
    """What is wrong."""

    MISSING = "missing"  # the file is gone
    SIZE = "size"  # the file has another size than recorded
    UNREADABLE = "unreadable"  # the file's footer, or a page, cannot be read
    ROWS = "rows"  # the file has another number of rows than recorded
    CONTENT = "content"  # the file's bytes differ from its checksum, or its values from its footer
    UNKNOWN = "unknown"  # no snapshot reads the file
    CATALOG = "catalog"  # the catalog is damaged, or contradicts itself
    INDEX = "index"  # a table of meta contradicts the raw tables


@dataclass(frozen=True, kw_only=True)
class Damage:
    """One thing that is wrong. `file` is None if no listed file is damaged; `name` is its name.

    `table` is empty for damage of the whole catalog.
    """

    kind: DamageKind
    table: str
    name: str
    found: str
    file: ListedFile | None = None


@dataclass(frozen=True, kw_only=True)
class CheckReport:
    """The result of a check: the files and bytes looked at, and what is wrong.

    `unproven` counts files without a checksum yet. `notes` say what was not checked.
    """

    files: int
    size: int
    is_full: bool
    damages: tuple[Damage, ...] = ()
    unproven: int = 0
    notes: tuple[str, ...] = field(default=())

    @property
    def lost_files(self) -> tuple[ListedFile, ...]:
        """The files whose rows can no longer be trusted."""
        files = {damage.file.name: damage.file for damage in self.damages if damage.file}
        return tuple(files.values())


def in_words(damages: tuple[Damage, ...]) -> str:
    """Return what is wrong as one sentence, without names of devices.

    >>> one = Damage(kind=DamageKind.MISSING, table="raw.x", name="raw/x/1.parquet", found="")
    >>> in_words((one,))
    'The lake is damaged: 1 file missing (raw.x).'
    """
    texts = []
    for kind in DamageKind:
        tables = [damage.table for damage in damages if damage.kind is kind]
        if tables:
            named = sorted({table for table in tables if table})
            where = f" ({', '.join(named)})" if named else ""
            texts.append(f"{_WORDS[kind].format(count=_things(kind, len(tables)))}{where}")
    return f"The lake is damaged: {'; '.join(texts)}."


def _things(kind: DamageKind, count: int) -> str:
    nouns = {DamageKind.CATALOG: "fault", DamageKind.INDEX: "contradiction"}
    return counted(count, nouns.get(kind, "file"))


_WORDS = {
    DamageKind.MISSING: "{count} missing",
    DamageKind.SIZE: "{count} of another size",
    DamageKind.UNREADABLE: "{count} unreadable",
    DamageKind.ROWS: "{count} with another number of rows",
    DamageKind.CONTENT: "{count} with changed content",
    DamageKind.UNKNOWN: "{count} that no snapshot reads",
    DamageKind.CATALOG: "{count} in the catalog",
    DamageKind.INDEX: "{count} between meta and raw",
}
