"""Compare the battery marts with whole lives of simulated batteries, held out in time.

    python -m tools.battery_lives

A life takes years, so the readings come from the simulator's batteries directly, not through its
service. Each life is cut at random moments. The marts see the readings before a cut, the truth is
when the battery really reaches 62%. Writes the table of the page about the marts.
"""

# ruff: noqa: T201 - it is run for what it prints

import tempfile
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl

from fleetlake.lake import open_lake
from fleetlake.marts import build_marts
from fleetsim.draws import Draws
from fleetsim.units import DAY
from fleetsim.world.batteries import FADES, ageing
from tools.blocks import filled

PAGE = Path(__file__).parents[1] / "docs/explanation/marts.md"
SEEDS = (1, 2, 3)
BATTERIES, CUTS = 400, 8
SEEN_DAYS = 60
"""The marts use the newest 30 days with a reading; some batteries miss one day in three."""
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
SOON_DAYS = 30.0
"""A flag is true if the battery is worn out within this time."""

ADD = """
insert into raw.batteries
    (account_profile, id, router_id, health, rsoc, temp, updated_at, valid_from, _load_id,
     _loaded_at)
select 'default', life, 1, health, 100, 20, "at", "at", 'lives', "at" from truth
"""
JUDGED = """
select battery_id as life, risk, days_left, health_pct from marts.battery_risk
"""


def lives(seed: int) -> pl.DataFrame:
    """Return the daily readings before each cut, with the days that were left at the cut."""
    draws, hardware = Draws(seed), np.repeat(np.arange(BATTERIES), CUTS)
    ages = ageing(draws, hardware, 0, 0)
    case = np.arange(len(hardware))
    left = (draws.between(0.0, 0.95, "cut", case) * ages.life).astype(np.int64)
    seen = []
    for days_ago in range(SEEN_DAYS):
        missed = draws.chance(0.33, "missed", case, days_ago) & draws.chance(
            0.3, "misses", hardware
        )
        health = ages.gauge(ages.worn_at - left - days_ago * DAY)
        frame = pl.DataFrame({"health": health, "case": case, "is_missed": missed})
        seen.append(frame.with_columns(at=pl.lit(NOW) - pl.duration(days=days_ago)))
    facts = pl.DataFrame(
        {"case": case, "fade": np.array(FADES)[ages.fade], "days": left / DAY, "seed": seed}
    )
    named = pl.format("{}-{}", "seed", "case").alias("life")
    return pl.concat(seen).filter(~pl.col("is_missed")).join(facts, on="case").with_columns(named)


def judged(lake_path: Path) -> pl.DataFrame:
    """Return what the marts say about each life, with the truth."""
    readings = pl.concat([lives(seed) for seed in SEEDS])
    with open_lake(lake_path) as lake, lake.view("truth", readings.to_arrow()):
        lake.execute(ADD)
    build_marts(lake_path)
    with open_lake(lake_path, read_only=True) as lake:
        said = lake.execute(JUDGED).pl()
    truth = readings.select("life", "fade", "seed", "days").unique()
    return truth.join(said, on="life", how="left").sort("life")


def table(cases: pl.DataFrame) -> str:
    """Return what the marts are worth, by fade and by seed, as a Markdown table."""
    is_near = pl.col("days_left") <= 120
    flagged, soon = pl.col("risk") == "high", pl.col("days") <= SOON_DAYS
    ratio = (pl.col("days") / pl.col("days_left").clip(1)).filter(is_near)
    measures = (
        pl.len().alias("lives"),
        soon.sum().alias("soon"),
        (flagged & soon).sum().alias("true"),
        (flagged & ~soon).sum().alias("false"),
        (pl.col("days") - pl.col("days_left")).filter(is_near).abs().median().alias("off"),
        (100 * ratio.is_between(0.5, 2).mean()).alias("within"),
    )
    by_fade = (
        cases.group_by("fade")
        .agg(*measures)
        .sort(pl.col("fade").replace_strict({fade: number for number, fade in enumerate(FADES)}))
    )
    by_seed = cases.group_by(pl.format("all, seed {}", "seed").alias("fade")).agg(*measures)
    lines = [
        "| fade | cuts | worn within 30 days | flagged | false per true flag | error | within |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in pl.concat([by_fade, by_seed.sort("fade")]).iter_rows(named=True):
        share, wrong = row["true"] / row["soon"], row["false"] / row["true"]
        lines.append(
            f"| {row['fade']} | {row['lives']:,} | {row['soon']} | {share:.0%} | {wrong:.2f}"
            f" | {row['off']:.0f} days | {row['within']:.0f}% |"
        )
    return "\n".join(lines)


def main() -> None:
    """Print the table, and write it into the page."""
    with tempfile.TemporaryDirectory() as folder:
        lake = Path(folder) / "lake"
        shown = table(judged(lake))
    print(shown)
    PAGE.write_text(filled(PAGE.read_text("utf-8"), {"battery lives": lambda: shown}), "utf-8")


if __name__ == "__main__":
    main()
