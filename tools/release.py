"""Make a release: `make release VERSION=0.3.0` in a clone without changes. Nothing is pushed."""

import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from packaging.version import Version

PLACES = {
    "pyproject.toml": '\nversion = "{}"\n',
    "compose.yaml": "image: fleetlake:{}\n",
    "container/kubernetes/kustomization.yaml": "newTag: {}\n",
    "container/kubernetes/jobs/template.json": '"fleetlake:{}"',
    "docs/reference/marts.odcs.yaml": "\nversion: {}\n",
    "docs/how-to/install.md": "dist/fleetlake-{}-py3",
    "CHANGELOG.md": "\n## [{}] - ",
}
"""Files that name the release, and what is before and after its version."""

UNRELEASED = "## [Unreleased]\n"
NEXT = """
{tag} is committed and tagged here, and dist/ has its wheel and bill of materials. Next:
  1. Look at it: git show {tag}
  2. Push it, if the proofs of docs/how-to/releases.md have passed: git push --follow-tags
To take it back before that: git tag -d {tag} && git reset --hard {before}"""


def release(new: str) -> str:
    """Write, commit and tag a version in the clone of the working folder; return what comes next.

    Raises: SystemExit if the clone has changes, or the version is not newer than its own.
    """
    texts = {name: Path(name).read_text("utf-8") for name in PLACES}
    [old] = re.findall(r'^version = "(.+)"$', texts["pyproject.toml"], re.MULTILINE)
    if not re.fullmatch(r"\d+\.\d+\.\d+", new) or Version(new) <= Version(old):
        sys.exit(f"VERSION is {new!r}. Name one after {old}: make release VERSION=1.2.3")
    if _run("git", "status", "--porcelain"):
        sys.exit("The clone has uncommitted files: a release is made of committed ones.")
    before = _run("git", "rev-parse", "--short", "HEAD").strip()
    heading = f"{UNRELEASED}\n## [{new}] - {datetime.now(UTC):%Y-%m-%d}\n"
    if wrong := [name for name in PLACES if texts[name].count(PLACES[name].format(old)) != 1]:
        sys.exit(
            f"Each of these must name {old} once, as tools/release.py says: {', '.join(wrong)}"
        )
    for name, words in PLACES.items():
        is_log = name == "CHANGELOG.md"
        change = (UNRELEASED, heading) if is_log else (words.format(old), words.format(new))
        Path(name).write_text(texts[name].replace(*change), "utf-8")
    _run("make", "setup")  # the environment's metadata have the version, too
    _run(sys.executable, "-m", "tests.lakes.make", new.rpartition(".")[0])
    _run("git", "add", "--all")
    _run("git", "commit", "--quiet", "--message", f"Release {new}")
    _run("make", "wheel", "sbom")  # both name the commit
    _run("git", "tag", "--annotate", f"v{new}", "--message", f"fleetlake {new}")
    return NEXT.format(tag=f"v{new}", before=before)


def _run(*words: str) -> str:
    """Run a command; return what it prints. Raises: SystemExit naming it if it fails."""
    sys.stderr.write(f"  {' '.join(words)} …\n")
    done = subprocess.run(words, check=False, stdout=subprocess.PIPE, text=True)
    return done.stdout if done.returncode == 0 else sys.exit(f"Failed: {' '.join(words)}")


if __name__ == "__main__":
    sys.stdout.write(release(sys.argv[1] if len(sys.argv) > 1 else "") + "\n")
