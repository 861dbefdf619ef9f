"""The pages of the documentation site: `docs/`, with what is written elsewhere put in.

`python -m tests.site_pages FOLDER` (`make site`) writes them for the site generator, whose own
environment does not contain fleetlake. In a page, `<!-- settings -->` stands for a block of
`tests/reference.py`, and `<!-- include README.md: Outlets -->` for a section of another file (the
whole file if no heading is named). A link leads to the page that shows the file, or becomes text.
"""

import re
import shutil
import sys
from collections.abc import Callable
from os.path import relpath
from pathlib import Path

from tests import reference

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"

INCLUDE = re.compile(r"<!-- include ([\w./]+)(?:: (.+?))? -->")
LINK = re.compile(r"(!?)\[([^][]+)\]\(([^)\s]+)\)")
FENCED = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
PLACEHOLDER = re.compile(r"(`[^`]*`)|<(?!br>|https?:)(?=[A-Za-z])")
"""Code, which is kept, or the start of a `<name>` in a text, which is no HTML."""
HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)


class Unresolved(Exception):
    """A page includes or links to something that does not exist."""


def section_of(text: str, heading: str) -> str:
    """Return what stands below a heading, up to the next heading of its level or above.

    Raises: Unresolved if there is no such heading.

    >>> section_of("## A\\none\\n### B\\ntwo\\n## C\\nthree", "A")
    'one\\n### B\\ntwo'
    """
    prose = FENCED.sub(lambda block: "x" * len(block[0]), text)  # `# comment` is no heading
    headings = list(HEADING.finditer(prose))
    for number, found in enumerate(headings):
        if found[2] == heading:
            ends = (h.start() for h in headings[number + 1 :] if len(h[1]) <= len(found[1]))
            return text[found.end() : next(ends, len(text))].strip()
    raise Unresolved(f"no heading {heading!r}")


def page_of() -> dict[Path, Path]:
    """Return the page that shows each file: itself, or the page that includes it whole."""
    shown = {ROOT / "README.md": DOCS / "index.md"}
    for page in DOCS.rglob("*.md"):
        shown[page] = page
        for name, heading in INCLUDE.findall(page.read_text(encoding="utf-8")):
            if not heading:
                shown[ROOT / name] = page
    return shown


def completed(page: Path) -> str:
    """Return a page of `docs/` with its blocks and includes, and links that work on the site."""
    shown = page_of()
    text = relinked(reference.rendered(page), page, page, shown)

    def included(found: re.Match[str]) -> str:
        source = ROOT / found[1]
        whole = source.read_text(encoding="utf-8")
        # A whole file has its title on the first line; the page has its own.
        part = section_of(whole, found[2]) if found[2] else whole.split("\n", 1)[1].strip()
        return relinked(raised(part), source, page, shown)

    return INCLUDE.sub(included, text)


def raised(text: str) -> str:
    """Return a section whose highest headings have level 2, as those of a page.

    >>> raised("one\\n\\n### B")
    'one\\n\\n## B'
    """
    prose = FENCED.sub("", text)
    excess = min((len(hashes) for hashes, _ in HEADING.findall(prose)), default=2) - 2
    return _outside_code(text, lambda part: HEADING.sub(lambda h: f"{h[1][excess:]} {h[2]}", part))


def relinked(text: str, source: Path, page: Path, shown: dict[Path, Path]) -> str:
    """Return a text of `source` whose links work on `page`. Raises: Unresolved."""

    def link(found: re.Match[str]) -> str:
        image, label, target = found.groups()
        if re.match(r"https?:|mailto:|#", target):
            return found[0]
        name, _, anchor = target.partition("#")
        file = (source.parent / name).resolve()
        if not file.exists():
            raise Unresolved(f"{source.relative_to(ROOT)} links to {target}")
        if image or file.suffix == ".svg":
            return f"{image}[{label}]({_to(DOCS / 'assets' / file.name, page)})"
        if file in shown:
            return f"[{label}]({_to(shown[file], page)}{'#' * bool(anchor)}{anchor})"
        # The site does not show sources: the name stays, and the path appears under the pointer.
        element = "code" if label.startswith("`") else "span"
        return f'<{element} title="{file.relative_to(ROOT)}">{label.strip("`")}</{element}>'

    def part_linked(part: str) -> str:
        return LINK.sub(link, PLACEHOLDER.sub(lambda found: found[1] or "&lt;", part))

    return _outside_code(text, part_linked)


def _to(file: Path, page: Path) -> str:
    return relpath(file, page.parent)


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    """Return a text with its fenced blocks as they are and everything else changed."""
    return "".join(p if p.startswith("```") else change(p) for p in FENCED.split(text))


def images() -> set[Path]:
    """Return the images that included files show."""
    pages = (page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md"))
    files = {ROOT / name for page in pages for name, _ in INCLUDE.findall(page)}
    return {
        (file.parent / target).resolve()
        for file in files
        for image, _, target in LINK.findall(file.read_text(encoding="utf-8"))
        if image and not target.startswith("http")
    }


def write_pages(folder: Path) -> None:
    """Write the pages and assets to a folder, in place of what it holds."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(DOCS, folder)
    for image in images():
        shutil.copy(image, folder / "assets" / image.name)
    for page in DOCS.rglob("*.md"):
        (folder / page.relative_to(DOCS)).write_text(completed(page), encoding="utf-8")


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
