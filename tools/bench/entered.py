"""`make trace-page`: how many modules and functions of fleetlake a page of alerts enters.

One process runs `fleetlake ingest alerts` against the simulator, and counts each function of the
package once, without comprehensions. "A page" is everything from the start of the streams to the
end of the ingest.
"""

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path
from types import FrameType

import fleetlake
from tests.support.processes import environment, service

PACKAGE = str(Path(fleetlake.__file__).parent) + os.sep
_OPTIMIZED = 1
"""A code flag that functions have, and the bodies of modules and classes do not."""

_COMPREHENSIONS = {"<listcomp>", "<genexpr>", "<setcomp>", "<dictcomp>"}

Place = tuple[str, str]
"""A module's file within the package, and a function of it."""


class Street:
    """Functions that were entered, in all and since the streams of a run were started."""

    def __init__(self) -> None:
        self.command: set[Place] = set()
        self.page: set[Place] = set()
        self._is_page = False

    def enter(self, frame: FrameType, event: str, _: object) -> None:
        """Note a function, as a profile function of Python."""
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE) or not code.co_flags & _OPTIMIZED:
            return
        place = code.co_filename.removeprefix(PACKAGE), code.co_qualname
        if place == ("loading/ingest.py", "ingest") and event == "return":
            self._is_page = False
        if event != "call" or code.co_name in _COMPREHENSIONS:
            return
        self._is_page = self._is_page or place == ("loading/load.py", "load_streams")
        self.command.add(place)
        if self._is_page:
            self.page.add(place)


def counted(places: Iterable[Place]) -> str:
    """Return the number of modules and of functions, in words."""
    found = set(places)
    return f"{len({file for file, _ in found})} modules, {len(found)} functions"


def trace(*, is_listed: bool) -> None:
    """Run the command, and print what it entered."""
    street = Street()
    sys.argv = ["fleetlake", "ingest", "alerts"]
    threading.setprofile(street.enter)
    sys.setprofile(street.enter)
    try:
        from fleetlake.__main__ import main  # noqa: PLC0415 - its imports count too

        main()
    except SystemExit as ended:
        if ended.code:
            raise
    finally:
        sys.setprofile(None)
    lines = [
        f"a page of alerts: {counted(street.page)}",
        f"the whole command: {counted(street.command)}",
        *(sorted(": ".join(place) for place in street.page) if is_listed else ()),
    ]
    sys.stdout.write("\n".join(lines) + "\n")


def main() -> None:
    """Trace the command in a process of its own; with `-v`, list the functions of a page."""
    with tempfile.TemporaryDirectory() as folder, service(routers=5, days=1) as fleet:
        env = environment(Path(folder), fleet.url)
        script = f"from tools.bench.entered import trace; trace(is_listed={'-v' in sys.argv})"
        command = [sys.executable, "-c", script]
        subprocess.run(command, env=os.environ | env, check=True)


if __name__ == "__main__":
    main()
