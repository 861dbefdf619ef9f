"""Fetches what the dashboard's pages vendor: scripts and outlines, by version and digest.

`python -m tools.vendor` (`make vendor`) packs each package that `vendored.toml` names with npm,
compares its integrity, and copies the files. To update one: change its version and remove its
`integrity` and `sha256`; the run prints the new ones. Licences are copied beside the files.
"""

import base64
import hashlib
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "src/fleetlake/dashboard/static/vendor"
MANIFEST = FOLDER / "vendored.toml"


def packages() -> list[dict[str, Any]]:
    """Return the vendored packages: name, version, licence, integrity and files."""
    return list(tomllib.loads(MANIFEST.read_text("utf-8"))["package"])


def digest(content: bytes) -> str:
    """Return the SHA-256 of a file's content."""
    return hashlib.sha256(content).hexdigest()


def integrity(archive: bytes) -> str:
    """Return the integrity of a package as npm writes it."""
    return f"sha512-{base64.b64encode(hashlib.sha512(archive).digest()).decode()}"


def content_of(file: dict[str, Any], packed: tarfile.TarFile) -> bytes:
    """Return a file of a package; one without `from` is not in the package, and kept here."""
    if "from" not in file:
        return (FOLDER / file["to"]).read_bytes()
    member = packed.extractfile(f"package/{file['from']}")
    assert member is not None, file["from"]
    return member.read()


def fetch(package: dict[str, Any], folder: Path) -> list[str]:
    """Copy a package's files into the vendor folder; return what differs from the manifest."""
    wanted = f"{package['name']}@{package['version']}"
    command = ["npm", "pack", "--silent", "--pack-destination", str(folder), wanted]
    subprocess.run(command, check=True, capture_output=True)
    [archive] = folder.glob("*.tgz")
    found = integrity(archive.read_bytes())
    differs = [] if found == package.get("integrity") else [f'{wanted} integrity = "{found}"']
    with tarfile.open(archive) as packed:
        for file in package["file"]:
            content = content_of(file, packed)
            if (found := digest(content)) != file.get("sha256"):
                differs.append(f'{wanted} {file["to"]} sha256 = "{found}"')
            (FOLDER / file["to"]).write_bytes(content)
    return differs


def main() -> None:
    """Fetch every package; exit with 1 if anything differs from the manifest."""
    differs = []
    for package in packages():
        with tempfile.TemporaryDirectory() as folder:
            differs += fetch(package, Path(folder))
    sys.stdout.write("".join(f"{line}\n" for line in differs))
    sys.exit(bool(differs))


if __name__ == "__main__":
    main()
