"""`fleetlake metrics`: the lake's figures for Prometheus."""

from pathlib import Path
from typing import Annotated

import typer

from fleetlake.cli.output import machine_output


def metrics(
    output: Annotated[
        Path | None,
        typer.Option(
            help="Replace this file instead of printing, e.g. in the folder of node_exporter's "
            "textfile collector. Every user may read it: it names no device and no person."
        ),
    ] = None,
) -> None:
    """Print the lake's figures as Prometheus metrics.

    They are read from the lake when the command runs, so run it on a timer, every few minutes:
    the age of what was loaded then grows even if loads have stopped. docs/reference/metrics.md
    lists every metric, docs/monitoring holds example alert rules and a Grafana dashboard.
    """
    from fleetlake.lake import open_lake
    from fleetlake.machine.atomic_files import write_atomically
    from fleetlake.machine.io_faults import output_lost
    from fleetlake.monitoring.figures import measure
    from fleetlake.monitoring.prometheus import metrics_text
    from fleetlake.settings import load_settings

    settings = load_settings()
    with open_lake(settings.lake, read_only=True) as lake:
        text = metrics_text(measure(lake, settings))
    if output is None:
        machine_output().write(text)
        return
    try:
        write_atomically(output, text, mode=0o644)
    except OSError as error:
        raise output_lost("The metrics", output, error, otherwise=" one") from None
