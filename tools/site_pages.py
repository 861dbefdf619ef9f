"""The pages of the documentation site: `docs/`, and files that are kept elsewhere.

`python -m tools.site_pages FOLDER` (`make site`) writes them for the site generator, whose own
environment does not contain fleetlake. A link leads to the page that shows the file, or becomes
text.
"""

import re
import shutil
import sys
from collections.abc import Callable
from os.path import relpath
from pathlib import Path

from tools.blocks import without_placeholders

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"

ELSEWHERE = {
    "CHANGELOG.md": "reference/changelog.md",
    "CONTRIBUTING.md": "how-to/contribute.md",
    "sql/QUESTIONS.md": "how-to/questions.md",
}
"""Files that the site shows although they are kept elsewhere, each with its page."""

LINK = re.compile(r"(!?)\[([^][]+)\]\(([^)\s]+)\)")
FENCED = re.compile(r"(^ *```.*?^ *```$)", re.DOTALL | re.MULTILINE)


class Unresolved(Exception):
    """A page links to something that does not exist."""


def page_of() -> dict[Path, Path]:
    """Return the files that the site shows, each with its page relative to the site's root."""
    own = {page: page.relative_to(DOCS) for page in sorted(DOCS.rglob("*.md"))}
    return own | {ROOT / name: Path(page) for name, page in ELSEWHERE.items()}


def completed(source: Path) -> str:
    """Return a file as a page of the site, with links that work there. Raises: Unresolved."""
    shown = page_of()
    targets = shown | {ROOT / "README.md": Path("index.md")}
    folder = shown[source].parent

    def link(found: re.Match[str]) -> str:
        image, label, target = found.groups()
        if re.match(r"https?:|mailto:|#", target):
            return found[0]
        name, _, anchor = target.partition("#")
        file = (source.parent / name).resolve()
        if not file.exists():
            raise Unresolved(f"{source.relative_to(ROOT)} links to {target}")
        if image or file.suffix == ".svg":
            return f"{image}[{label}]({relpath(Path('assets', file.name), folder)})"
        if file in targets:
            return f"[{label}]({relpath(targets[file], folder)}{'#' * bool(anchor)}{anchor})"
        # The site does not show sources: the name stays, and the path appears under the pointer.
        element = "code" if label.startswith("`") else "span"
        return f'<{element} title="{file.relative_to(ROOT)}">{label.strip("`")}</{element}>'

    text = source.read_text(encoding="utf-8")
    return _outside_code(text, lambda part: LINK.sub(link, without_placeholders(part)))


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    """Return a text with its fenced blocks as they are and everything else changed."""
    parts = FENCED.split(text)
    return "".join(p if p.lstrip().startswith("```") else change(p) for p in parts)


def images() -> set[Path]:
    """Return the images that pages show and that are not in `docs/`."""
    found = {
        (source.parent / target).resolve()
        for source in page_of()
        for image, _, target in LINK.findall(source.read_text(encoding="utf-8"))
        if image and not target.startswith("http")
    }
    return {image for image in found if not image.is_relative_to(DOCS)}


def write_pages(folder: Path) -> None:
    """Write the pages and assets to a folder, in place of what it holds."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(DOCS, folder)
    for image in images():
        shutil.copy(image, folder / "assets" / image.name)
    for source, page in page_of().items():
        (folder / page).write_text(completed(source), encoding="utf-8")


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
