"""Where DuckDB's extensions are: in one of two layouts of wheels, or where DuckDB installs them.

An extension loads only into the DuckDB that it was built for, so each place is searched for the
version that runs. Wheels up to 1.5.5 are `duckdb-extension-<name>`, later ones are DuckDB's own
`duckdb-core-ext-<name>`. Only if no wheel has it is it downloaded; DuckDB checks its signature.
"""

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import duckdb

from fleetlake.errors import LakeError
from fleetlake.text.wording import install_command

EXTRAS = {"postgres_scanner": "postgres", "httpfs": "s3"}
"""The extra of the package that brings an extension; the others always come with it."""


def extension_path(name: str) -> Path:
    """Return the file of an extension for this DuckDB. Raises: LakeError if there is none."""
    found = next(_installed(name), None)
    return found or _downloaded(name)


def _installed(name: str) -> Iterator[Path]:
    version, file = f"v{duckdb.__version__}", f"{name}.duckdb_extension"
    spec = find_spec(f"duckdb_extension_{name}")
    for folder in spec.submodule_search_locations or () if spec else ():
        yield from Path(folder, "extensions", version).rglob(file)
    for folder in sys.path:
        yield from Path(folder, ".duckdb_extensions", version).glob(f"*/{file}")
    yield from Path("~/.duckdb/extensions").expanduser().glob(f"{version}/*/{file}")


def _downloaded(name: str) -> Path:
    try:
        with duckdb.connect() as connection:
            connection.install_extension(name)
            [(path,)] = connection.execute(
                "select install_path from duckdb_extensions() where extension_name = ?", [name]
            ).fetchall()
    except (duckdb.Error, OSError) as error:
        raise LakeError(
            f"DuckDB's {name} extension for {duckdb.__version__} is not installed, and its "
            f"download failed: {' '.join(str(error).split())[:200]}",
            remedy=install_command(EXTRAS[name]) if name in EXTRAS else "Install fleetlake again.",
        ) from None
    return Path(path)
