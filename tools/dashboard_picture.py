"""Takes the picture in README and docs, of the demo's lake: `make dashboard-picture`.

It serves the demo's snapshot, and then runs itself in the environment of `make test-dashboard`, as
`python picture.py URL FILE`.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BROWSER = ROOT / ".venv-browser" / "bin" / "python"
PICTURE = ROOT / "docs" / "assets" / "dashboard.png"
SIZE = (1200, 860)


def main() -> None:
    """Serve the demo's lake, and take the picture in the browser's environment."""
    command = [sys.executable, "-m", "fleetlake", "dashboard", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().removeprefix("ready ").strip()
            found = {**os.environ, "PYTHONPATH": str(ROOT / "tests" / "dashboard")}
            subprocess.run([BROWSER, __file__, url, PICTURE], check=True, env=found)
        finally:
            process.terminate()


def take(url: str, file: str) -> None:
    """Write a picture of the map, as it is now, to a file."""
    from browser import SOFTWARE, Watched  # noqa: PLC0415 - of the browser's environment
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - likewise

    path = os.environ.get("CHROMIUM", "/usr/bin/chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*SOFTWARE])
        watched = Watched(browser, url, width=SIZE[0], theme="light", axe="")
        watched.page.set_viewport_size({"width": SIZE[0], "height": SIZE[1]})
        watched.open("/map")
        watched.page.wait_for_timeout(2000)  # labels fade in
        watched.page.screenshot(path=file)
        browser.close()


if __name__ == "__main__":
    take(*sys.argv[1:]) if len(sys.argv) > 1 else main()
