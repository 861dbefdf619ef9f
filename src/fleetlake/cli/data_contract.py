"""`fleetlake contract`: what the published tables hold, in a standard form."""

from pathlib import Path
from typing import Annotated

import typer


def contract(
    to: Annotated[
        Path | None, typer.Option(help="File to write or replace; default: standard output.")
    ] = None,
) -> None:
    """Write the data contract of the published snapshot, in the Open Data Contract Standard.

    It has tables, columns, types, keys, meanings, units, owner and addresses, and how fresh and
    complete each table is, as measured. Data catalogues and datacontract-cli read it.
    """
    from fleetlake.analysis.data_contract import as_yaml, measured_contract
    from fleetlake.cli.screen import console
    from fleetlake.settings import load_settings

    text = as_yaml(measured_contract(load_settings()))
    if to is None:
        console().print(text, soft_wrap=True, end="")
        return
    to.write_text(text, encoding="utf-8")
    console().print(f"Written to {to}.", soft_wrap=True)
