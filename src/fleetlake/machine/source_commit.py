"""The commit that this release was built from: asked of git in a clone, written into a wheel.

The build hook, hatch_build.py, runs this file before fleetlake is installed, so it imports only
the standard library. fleetlake works without git: an unknown commit is None.
"""

import os
import subprocess
from pathlib import Path

BAKED = "_commit.txt"
"""The file in a wheel's package that holds the commit."""

_PACKAGE = Path(__file__).resolve().parent.parent
_DESCRIBE = ("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
_TIMEOUT_SECONDS = 10.0


def source_commit() -> str | None:
    """Return the commit of this installation, None if it is unknown.

    It has 12 or more digits, and ends with `-dirty` if tracked files differed from the commit.
    """
    try:
        return (_PACKAGE / BAKED).read_text("ascii").strip() or None
    except (OSError, ValueError):
        return commit_of_clone(_PACKAGE.parent.parent)


def commit_of_clone(root: Path) -> str | None:
    """Return the commit that is checked out in a clone, None without a clone or git.

    A folder inside another project's repository is not a clone: git would answer with that commit.
    """
    if not (root / ".git").exists():
        return None
    kept = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
    try:
        done = subprocess.run(  # noqa: S603 - constant words
            ["git", "-C", str(root), *_DESCRIBE],  # noqa: S607 - the user's own git
            capture_output=True,
            text=True,
            check=True,
            timeout=_TIMEOUT_SECONDS,
            # Without GIT_DIR, which a git hook sets for its own repository.
            env=kept | {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
        )
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return done.stdout.strip() or None
