"""`fleetlake docs`: what each mart and column means, as one page."""

from pathlib import Path
from typing import Annotated

import typer

from fleetlake.cli.screen import console

SITE = Path("data/docs/index.html")


def docs(
    to: Annotated[
        Path | None, typer.Option(help="The file to write; default: data/docs/index.html.")
    ] = None,
) -> None:
    """Write one HTML page that describes all models, their columns, tests and lineage.

    Needs marts in the lake: run `fleetlake build` first. The page works without a network.
    """
    import shutil

    from fleetlake.machine.project import in_project
    from fleetlake.marts.build import write_docs
    from fleetlake.settings import load_settings

    page = write_docs(load_settings().lake)
    site = to or in_project(SITE)
    site.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(page, site)
    console().print(f"Written to {site}.", soft_wrap=True)
