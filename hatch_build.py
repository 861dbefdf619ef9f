"""Build hook: a wheel and a source archive carry the commit that they were built from."""

import runpy
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MODULE = "src/fleetlake/machine/source_commit.py"
FOLDERS = {"wheel": "fleetlake", "sdist": "src/fleetlake"}


class CommitHook(BuildHookInterface[Any]):
    """Add the commit as a file, without writing to the clone."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the commit to a temporary file and include it.

        A clone installed as editable asks git each time. A source archive has no git, and already
        holds the file.
        """
        self._written = tempfile.TemporaryDirectory()
        if version == "editable":
            return
        code = runpy.run_path(str(Path(self.root) / MODULE))
        if commit := code["commit_of_clone"](Path(self.root)):
            file = Path(self._written.name) / code["BAKED"]
            file.write_text(f"{commit}\n", "ascii")
            place = f"{FOLDERS[self.target_name]}/{code['BAKED']}"
            build_data["force_include"][str(file)] = place

    def finalize(self, *_built: object) -> None:
        """Remove the temporary file."""
        self._written.cleanup()
