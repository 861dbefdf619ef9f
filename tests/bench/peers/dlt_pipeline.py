"""What both peers with dlt load through."""

from pathlib import Path

import dlt
from dlt.common.destination import Destination


def pipeline(folder: Path, destination: Destination) -> "dlt.Pipeline":
    """Return a pipeline that keeps what it knows of earlier runs in the folder."""
    return dlt.pipeline(
        "bench",
        pipelines_dir=str(folder / "pipelines"),
        destination=destination,
        dataset_name="raw",
    )
