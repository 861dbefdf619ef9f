"""The pipeline of both dlt peers."""

from pathlib import Path

import dlt
from dlt.common.destination import Destination


def pipeline(folder: Path, destination: Destination) -> "dlt.Pipeline":
    """Return a pipeline that keeps its state in the folder."""
    return dlt.pipeline(
        "bench",
        pipelines_dir=str(folder / "pipelines"),
        destination=destination,
        dataset_name="raw",
    )
