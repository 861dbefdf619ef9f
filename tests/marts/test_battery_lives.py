"""The battery marts against whole lives of simulated batteries, of each fade and three seeds."""

import shutil
from pathlib import Path

import polars as pl
import pytest

from tools.battery_lives import PAGE, SOON_DAYS, judged, table

pytestmark = [pytest.mark.proof, pytest.mark.xdist_group("marts")]


@pytest.fixture(scope="module")
def cases(empty_lake, tmp_path_factory) -> pl.DataFrame:
    return judged(Path(shutil.copytree(empty_lake, tmp_path_factory.mktemp("lives") / "lake")))


@pytest.mark.parametrize("of", ["fade", "seed"])
def test_seven_of_ten_batteries_worn_within_30_days_are_flagged_and_at_most_as_many_others(
    cases, of
):
    soon, flagged = pl.col("days") <= SOON_DAYS, pl.col("risk") == "high"
    counts = cases.group_by(of).agg(
        soon=soon.sum(), right=(soon & flagged).sum(), wrong=(~soon & flagged).sum()
    )

    assert counts.filter(pl.col("right") < 0.7 * pl.col("soon")).is_empty(), counts
    assert counts.filter(pl.col("wrong") > pl.col("right")).is_empty(), counts
    assert counts["soon"].min() >= 100


def test_a_battery_at_70_percent_or_less_is_at_least_at_medium_risk(cases):
    assert cases.filter(pl.col("health_pct") <= 70, pl.col("risk") == "low").is_empty()
    assert cases["risk"].value_counts().height == 3


def test_the_page_about_the_marts_has_the_measured_table(cases):
    assert table(cases) in PAGE.read_text("utf-8")
