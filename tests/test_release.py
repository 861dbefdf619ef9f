"""`make release` in a small repository: what it writes and refuses, and that it pushes nothing."""

from pathlib import Path

import pytest

from tests.test_source_commit import GIT, git
from tools.release import PLACES, release

ROOT = Path(__file__).parents[1]
MAKEFILE = "setup:\nwheel sbom:\n\t@mkdir -p dist && git log -1 --format=%s > dist/$@\n"
LAKE = "import pathlib, sys; pathlib.Path('tests/lakes', sys.argv[1]).write_text('a lake')"


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a clone of a repository with the files that name the release; return its folder."""
    origin, folder = tmp_path / "origin", tmp_path / "clone"
    others = {
        "Makefile": MAKEFILE,
        "tests/lakes/make.py": LAKE,
        ".gitignore": "dist/\n__pycache__/",
    }
    for name, text in {**{name: (ROOT / name).read_text() for name in PLACES}, **others}.items():
        (origin / name).parent.mkdir(parents=True, exist_ok=True)
        (origin / name).write_text(text)
    git(origin, "init", "--quiet")
    git(origin, "add", "--all")
    git(origin, "commit", "--quiet", "--message", "first")
    git(tmp_path, "clone", "--quiet", str(origin), str(folder))
    monkeypatch.chdir(folder)
    for name, value in GIT.items():
        monkeypatch.setenv(name, value)
    return folder


def test_a_release_is_one_commit_with_a_tag_that_names_it_everywhere_and_is_not_pushed(clone):
    changes = (clone / "CHANGELOG.md").read_text().partition("## [Unreleased]\n")[2]

    said = release("7.8.9")

    assert git(clone, "log", "--format=%s %D").splitlines()[0].startswith("Release 7.8.9 HEAD")
    assert git(clone, "cat-file", "-t", "v7.8.9") == "tag\n"
    assert git(clone, "rev-parse", "v7.8.9^{commit}") == git(clone, "rev-parse", "HEAD")
    assert git(clone, "rev-parse", "HEAD~1") == git(clone, "rev-parse", "origin/HEAD")
    assert git(clone, "ls-remote", "--tags") == git(clone, "status", "--porcelain") == ""
    for name, words in PLACES.items():
        assert words.format("7.8.9") in git(clone, "show", f"HEAD:{name}")
    log = (clone / "CHANGELOG.md").read_text()
    unreleased, _, dated = log.partition("## [Unreleased]\n")[2].partition("\n## [7.8.9] - ")
    assert unreleased == ""
    assert dated[len("2026-01-01\n") :] == changes
    assert git(clone, "show", "HEAD:tests/lakes/7.8") == "a lake"
    assert (
        (clone / "dist/wheel").read_text() == (clone / "dist/sbom").read_text() == "Release 7.8.9\n"
    )
    assert "git push --follow-tags" in said


def test_what_is_not_a_newer_version_or_not_committed_is_refused_and_nothing_changes(clone):
    for version in ("", "0.1.9", "7.8", "v7.8.9", "7.8.9rc1"):
        with pytest.raises(SystemExit, match="Name one after"):
            release(version)
    (clone / "new.py").write_text("")

    with pytest.raises(SystemExit, match="uncommitted"):
        release("7.8.9")
    assert git(clone, "status", "--porcelain") == "?? new.py\n"
