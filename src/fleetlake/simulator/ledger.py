"""What clients have written: the only state that is stored."""

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Ledger:
    """Records created, changed and deleted through the API, by resource."""

    created: dict[str, dict[int, dict[str, Any]]] = field(default_factory=dict)
    changed: dict[str, dict[int, dict[str, Any]]] = field(default_factory=dict)
    deleted: dict[str, set[int]] = field(default_factory=dict)
