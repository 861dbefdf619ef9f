"""Dividing the ids of a large fleet between loads, run in any order or concurrently. Pure.

A stable checksum assigns each id to one of `PARTS` parts. Shard 2 of 4 takes the parts 1, 5 and 9.
So shards of different counts agree on which ids both of them would load.
"""

from dataclasses import dataclass
from zlib import crc32

PARTS = 12
"""Number of locks per stream, and the maximum number of shards; 2, 3, 4, 6 or 12 are equal."""


@dataclass(frozen=True)
class Shard:
    """Share `number`, counted from 1, of `of` shares of a fan-out's ids; by default, all ids."""

    number: int = 1
    of: int = 1

    def __post_init__(self) -> None:
        """Refuse a shard that no id could belong to."""
        if not 1 <= self.number <= self.of <= PARTS:
            raise ValueError(f"there is no shard {self}; write 1/4 to 4/4, with {PARTS} at most")

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Return the shard for a text like 2/4. Raises: ValueError.

        >>> Shard.parse("2/4")
        Shard(number=2, of=4)
        """
        number, separator, of = text.partition("/")
        if not (separator and number.isdecimal() and of.isdecimal()):
            raise ValueError(f"{text!r} is not a shard; write 1/4 for the first of four")
        return cls(int(number), int(of))

    def __str__(self) -> str:
        """Return the shard as a user types it.

        >>> str(Shard(2, 4))
        '2/4'
        """
        return f"{self.number}/{self.of}"

    @property
    def is_whole(self) -> bool:
        """True if it is the only shard."""
        return self.of == 1

    @property
    def parts(self) -> range:
        """The parts that belong to this shard.

        >>> list(Shard(2, 4).parts)
        [1, 5, 9]
        """
        return range(self.number - 1, PARTS, self.of)

    def has(self, partition: int | str) -> bool:
        """Return whether an id belongs to this shard.

        >>> [Shard(n, 3).has(1001) for n in (1, 2, 3)].count(True)
        1
        """
        return crc32(str(partition).encode()) % PARTS in self.parts


WHOLE = Shard()
