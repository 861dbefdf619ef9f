"""The user's own map tiles are served by ranges, and a file that cannot be drawn says why."""

import pytest

from fleetlake.dashboard.dashboard_server import serve_dashboard
from fleetlake.dashboard.map_tiles import TilesUnreadable, read_map_tiles
from fleetlake.dashboard.web_app import create_dashboard
from tests.dashboard.asking import ask
from tests.dashboard.tiles import PNG, write_tiles


@pytest.fixture
def file(tmp_path):
    return write_tiles(
        tmp_path / "region.pmtiles", attribution='<a href="https://x.example">© A & <b>B</b></a>'
    )


@pytest.fixture
def tiled(world, file):
    return create_dashboard(world.published, tiles=file)


def test_a_file_says_what_it_holds_and_its_attribution_has_no_tags(tiled):
    assert ask(tiled, "/api/tiles").json() == {
        "is_vector": True,
        "layers": ["water", "roads"],
        "attribution": "© A &amp; B",
    }


def test_pictures_are_drawn_as_pictures(tmp_path):
    assert not read_map_tiles(write_tiles(tmp_path / "photos.pmtiles", tile_type=PNG)).is_vector


def test_a_browser_reads_ranges_of_the_file_unpacked_and_notices_another_file(tiled, file):
    wanted = {"range": "bytes=7-126", "accept-encoding": "gzip"}

    whole = file.read_bytes()
    part = ask(tiled, "/tiles.pmtiles", headers=wanted)
    before = part.headers["etag"]
    write_tiles(file, layers=["earth"])
    after = ask(tiled, "/tiles.pmtiles", headers=wanted)

    assert (part.status_code, part.headers["content-type"]) == (206, "application/vnd.pmtiles")
    assert part.content == whole[7:127]
    assert part.headers["content-range"].startswith("bytes 7-126/")
    assert "content-encoding" not in part.headers
    assert part.headers["content-security-policy"].startswith("default-src 'none'")
    assert after.headers["etag"] != before


def test_without_tiles_the_map_has_outlines_only(app):
    assert ask(app, "/api/tiles").json() is None
    assert ask(app, "/tiles.pmtiles").status_code == 404


def test_a_file_that_disappears_while_the_page_is_open_is_reported(tiled, file):
    file.unlink()

    answer = ask(tiled, "/api/tiles")

    assert answer.status_code == 503
    assert "no such file" in answer.json()["what"]
    assert "--tiles" in answer.json()["remedy"]
    assert ask(tiled, "/tiles.pmtiles").status_code == 404


def cut(file):
    file.write_bytes(file.read_bytes()[:-1])


def spoil_directory(file):
    content = bytearray(file.read_bytes())
    content[130:134] = b"\xff\xff\xff\xff"
    file.write_bytes(content)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda file: file.unlink(), "no such file"),
        (lambda file: file.write_bytes(b"PMTiles"), "it is not a PMTiles file"),
        (lambda file: file.write_text("{}" * 100), "it is not a PMTiles file"),
        (cut, "it is cut off: .* are there"),
        (spoil_directory, "its directory is damaged"),
        (lambda file: write_tiles(file, version=2), "it has version 2"),
        (lambda file: write_tiles(file, packing=4), "browsers cannot unpack it"),
        (lambda file: write_tiles(file, tile_type=6), "its tiles are neither"),
        (lambda file: write_tiles(file, layers=[]), "its metadata names no"),
        (lambda file: write_tiles(file, vector_layers=7), "its metadata is damaged"),
    ],
)
def test_a_file_that_cannot_be_drawn_stops_the_start_and_says_why(world, file, spoil, why):
    spoil(file)

    with pytest.raises(TilesUnreadable, match=f"region.pmtiles cannot be drawn: {why}") as raised:
        serve_dashboard(world.published, port=0, tiles=file, ready=print)

    assert "outlines only" in str(raised.value.remedy)
