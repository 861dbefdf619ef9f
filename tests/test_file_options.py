"""How files of a lake are written: small in new lakes, and in old ones once maintained."""

from datetime import timedelta
from pathlib import Path

import pytest

from fleetlake.care.maintenance import maintain
from fleetlake.endpoints import ENDPOINTS
from fleetlake.lake import Lake, open_lake, tables
from fleetlake.lake.ducklake import files_of
from tests.support.sim import NOW, Sim, new_sim
from tests.test_load import flaws

SAMPLES = [
    *("net_device_signal_samples", "net_device_usage_samples"),
    *("router_state_samples", "router_stream_usage_samples"),
]
MOST = 0.65
"""Bytes divided by those of a Snappy copy of the same rows: 0.63 here, 0.6 for larger fleets."""


def load(sim: Sim) -> None:
    outcomes = sim.ingest("routers", "net_devices", *SAMPLES)
    assert [outcome.error for outcome in outcomes if outcome.error] == []


def ratio_to_snappy(lake: Lake, work: Path) -> float:
    """Return the bytes of the sample tables' files, divided by those of Snappy copies."""
    held = copied = 0
    for name in SAMPLES:
        [(size,)] = lake.rows(
            f"select sum(data_file_size_bytes)::bigint from {files_of('raw', name)}"
        )
        copy = work / f"{name}.parquet"
        lake.execute(f"copy (from raw.{name} order by created_at) to '{copy}' (format parquet)")
        held, copied = held + size, copied + copy.stat().st_size
    return held / copied


def files(lake: Lake, name: str) -> list[str]:
    listed = lake.rows(f"select data_file from {files_of('raw', name)}")
    return [file for (file,) in listed]


def codecs(lake: Lake) -> set[str]:
    found = [file for name in SAMPLES for file in files(lake, name)]
    return {codec for (codec,) in lake.rows("select compression from parquet_metadata(?)", [found])}


def test_the_sample_tables_of_a_new_lake_have_few_bytes(tmp_path: Path) -> None:
    sim = new_sim(tmp_path)
    load(sim)

    with open_lake(sim.settings().lake) as lake:
        assert ratio_to_snappy(lake, tmp_path) < MOST
        for name in SAMPLES:
            key = ", ".join((ENDPOINTS[name].key[0], "created_at"))
            [file] = files(lake, name)
            assert lake.rows(f"select {key} from read_parquet(?)", [file]) == lake.rows(
                f"select {key} from raw.{name} order by {key}"
            )


def test_maintain_writes_the_files_of_an_old_lake_anew_and_their_rows_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sim = new_sim(tmp_path)
    with monkeypatch.context() as earlier_release:
        earlier_release.setattr(tables, "_FILE_OPTIONS", ())
        load(sim)
        sim.advance(3600)
        load(sim)
    rows = " union all ".join(
        f"select md5(string_agg(t::varchar, '' order by t::varchar)) from raw.{name} t"
        for name in SAMPLES
    )
    with open_lake(sim.settings().lake) as lake:
        before, old_codecs, old_ratio = (
            lake.rows(rows),
            codecs(lake),
            ratio_to_snappy(lake, tmp_path),
        )
        maintain(lake)

        assert (old_codecs, codecs(lake)) == ({"SNAPPY"}, {"ZSTD"})
        assert old_ratio > 0.9
        assert ratio_to_snappy(lake, tmp_path) < MOST
        assert lake.rows(rows) == before
    assert flaws(sim, map(ENDPOINTS.__getitem__, SAMPLES), NOW + timedelta(hours=1)) == {}


@pytest.mark.parametrize("scope", ["", ", table_name => 'alerts', schema => 'raw'"])
def test_a_codec_that_the_owner_has_chosen_is_kept_without_our_level(
    lake_path: Path, monkeypatch: pytest.MonkeyPatch, scope: str
) -> None:
    lake_path = lake_path.with_name("old")
    with monkeypatch.context() as earlier_release:
        earlier_release.setattr(tables, "_FILE_OPTIONS", ())
        with open_lake(lake_path) as lake:
            lake.execute(f"call lake.set_option('parquet_compression', 'gzip'{scope})")
    with open_lake(lake_path) as lake:
        maintain(lake)
        lake.execute("insert into raw.alerts (type) select 't' from range(20)")
        found = lake.rows("select option_name, value from lake.options()")

    assert ("parquet_compression", "gzip") in found
    assert "parquet_compression_level" not in dict(found)
