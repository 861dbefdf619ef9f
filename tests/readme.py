"""The parts of the README that are rendered from the code.

`python -m tests.readme` (`make readme`) writes them; a test compares them.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from fleetlake.endpoints import ENDPOINTS
from fleetlake.marts import mart_table
from fleetlake.settings import Settings

README = Path(__file__).parent.parent / "README.md"


def endpoint_table() -> str:
    """Return the table of endpoints."""
    lines = ["| table | what it holds | kept as | key |", "|---|---|---|---|"]
    for endpoint in ENDPOINTS.values():
        kept = str(endpoint.mode)
        if endpoint.retention:
            kept += f"; the service forgets after {endpoint.retention.days} days"
        key = ", ".join(f"`{name}`" for name in endpoint.key)
        lines.append(f"| `raw.{endpoint.name}` | {endpoint.about} | {kept} | {key} |")
    return "\n".join(lines)


def settings_table() -> str:
    """Return the table of settings."""
    lines = ["| setting | default | what it is |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        default = field.default
        if field.default_factory not in {None, dict}:
            default = "~/.local/state/fleetlake"  # on Linux; XDG_STATE_HOME moves it
        is_empty = default in ({}, None) or str(default) in {"", "PydanticUndefined"}
        shown = "" if is_empty else f"`{default}`"
        if isinstance(default, tuple):
            shown = f"`{','.join(default)}`"
        if "SecretStr" in str(field.annotation):
            shown = ""
        lines.append(f"| `FLEETLAKE_{name.upper()}` | {shown} | {field.description} |")
    return "\n".join(lines)


BLOCKS = {"endpoints": endpoint_table, "settings": settings_table, "marts": mart_table}


def rendered(readme: str, blocks: Mapping[str, Callable[[], str]] = BLOCKS) -> str:
    """Return the README with every rendered block as the current code gives it."""
    for name, render in blocks.items():
        block = f"<!-- {name} -->\n{render().strip()}\n<!-- /{name} -->"
        pattern = rf"<!-- {name} -->\n(?:.*?<!-- /{name} -->)?"
        readme = re.sub(pattern, lambda _, block=block: block, readme, count=1, flags=re.DOTALL)
    return readme


if __name__ == "__main__":
    README.write_text(rendered(README.read_text()))
