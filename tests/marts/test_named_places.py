"""`places.csv`: what is read from it, which rows are refused, and which points a place holds."""

import pytest

from fleetlake.errors import BuildFailed
from fleetlake.lake import open_lake
from fleetlake.marts.named_places import place_seeds, read_places
from fleetlake.marts.sql_project import project_digest, project_folder, ready_project

HEAD = "name,latitude_deg,longitude_deg,radius_m,wkt\n"
NAMES = ("working_days", "working_from_hour", "working_until_hour")


def place(tmp_path, *rows):
    file = tmp_path / "places.csv"
    file.write_text(HEAD + "\n".join(rows) + "\n", "utf-8")
    return file


def test_a_circle_and_a_polygon_with_a_hole_are_read(tmp_path):
    file = place(
        tmp_path,
        "Depot,39.5,-104.5,150,",
        'Yard,,,,"POLYGON ((10 50, 11 50, 11 51, 10 51, 10 50), (10.2 50.2, 10.8 50.2, 10.8 50.8,'
        ' 10.2 50.2))"',
    )

    depot, yard = read_places(file)

    assert (depot.name, depot.latitude_deg, depot.longitude_deg) == ("Depot", 39.5, -104.5)
    assert depot.area_m2() == pytest.approx(70_686, rel=0.001)
    assert [len(ring) for ring in yard.rings] == [5, 4]
    assert yard.bounds() == (50, 51, 10, 1)


@pytest.mark.parametrize("more", ["10.8 0.3, 10.8 -0.3", "10.8 -0.3, 10.8 0.3"])
def test_a_hole_is_no_part_of_the_area_whichever_way_it_winds(tmp_path, more):
    outline, hole = "10 -0.5, 11 -0.5, 11 0.5, 10 0.5, 10 -0.5", f"10.2 -0.3, {more}, 10.2 -0.3"
    [yard] = read_places(place(tmp_path, f'Yard,,,,"POLYGON (({outline}), ({hole}))"'))

    assert yard.area_m2() == pytest.approx(0.82 * 111_195**2, rel=1e-4)


def test_a_place_across_the_antimeridian_is_as_wide_as_it_is(tmp_path):
    circle, area, holed, cut = read_places(
        place(
            tmp_path,
            "Circle,0,179.9995,111.19508,",
            'Area,,,,"POLYGON ((179 10, -179 10, -179 11, 179 11, 179 10))"',
            'Holed,,,,"POLYGON ((179 0, -179 0, -179 4, 179 4, 179 0),'
            ' (-179.5 1, -179.25 1, -179.25 3, -179.5 1))"',
            'Cut,,,,"MULTIPOLYGON (((-179 0, -180 0, -180 2, -179 2, -179 0)),'
            ' ((179 0, 180 0, 180 2, 179 2, 179 0)))"',
        )
    )

    assert circle.bounds() == pytest.approx((-0.001, 0.001, 179.9985, 0.002))
    assert area.bounds() == (10, 11, 179, 2)
    assert holed.bounds() == (0, 4, 179, 2)
    assert cut.bounds() == (0, 2, -181, 2)


WRONG = {
    ",1,2,3,": "it has no name",
    "a,1,2,,": "radius_m '' is not a number",
    "a,x,2,3,": "latitude_deg 'x' is not a number",
    "a,nan,2,3,": "latitude_deg 'nan' is not a number",
    "a,91,2,3,": "latitude_deg 91 is not between -90 and 90",
    "a,1,181,3,": "longitude_deg 181 is not between -180 and 180",
    "a,1,2,0,": "radius_m 0 is not above 0",
    "a,1,2,200000,": "radius_m 200000 is not above 0 and at most 100000",
    "a,,,,": "needs a centre and a radius, or a polygon",
    "a,1,2,3,POLYGON ((0 0))": "and not both",
    "a,1,2": "more or fewer values",
    "a,1,2,3,,x": "more or fewer values",
    "a,,,,POINT (1 2)": "not a POLYGON",
    'a,,,,"POLYGON ((0 0, 1 0, 1 1, 0 1))"': "must end where it starts",
    'a,,,,"POLYGON ((0 0, x 0, 1 1, 0 0))"': "'x 0' is not a longitude and a latitude",
    'a,,,,"POLYGON ((0 0, 1 95, 1 1, 0 0))"': "wkt: latitude 95",
    'a,,,,"POLYGON ((0 0, nan 1, 1 1, 0 0))"': "wkt: longitude nan is not between -180 and 180",
    'a,,,,"POLYGON ((0 0, 1 -inf, 1 1, 0 0))"': "wkt: latitude -inf is not between -90 and 90",
    'a,,,,"POLYGON ((0 0, 1e999 1, 1 1, 0 0))"': "wkt: longitude inf is not between",
    'a,,,,"MULTIPOLYGON (((0 0, 1 0, 1 1, 0 0)), ((0 0, 1 0, 1 nan, 0 0)))"': "wkt: latitude nan",
    "a,-inf,2,3,": "latitude_deg '-inf' is not a number",
    "a,1,2,inf,": "radius_m 'inf' is not a number",
    "good,5,5,5,": "there is another place good",
}
HOURS = {
    "128,,": "working_days '128' is not digits from 1 to 7",
    "1214,,": "working_days '1214' is not digits from 1 to 7, each once",
    "'; drop,,": 'working_days "\'; drop" is not',
    "\u0661,,": "is not digits from 1 to 7",
    ",8,": "working_from_hour '8' and working_until_hour '' are not whole hours",
    ",18,8": "the first before the second",
    ",8,25": "from 0 to 24",
    ",-1,8": "are not whole hours",
    ",8.5,9": "are not whole hours",
}


@pytest.mark.parametrize("row", WRONG)
def test_a_wrong_row_is_refused_with_its_line_and_the_reason(tmp_path, row):
    with pytest.raises(BuildFailed) as error:
        read_places(place(tmp_path, "good,1,2,3,", row))

    assert "line 3: " in str(error.value)
    assert WRONG[row] in str(error.value)


@pytest.mark.parametrize("hours", HOURS)
def test_wrong_working_hours_of_a_place_are_refused(tmp_path, hours):
    file = tmp_path / "places.csv"
    file.write_text(f"{HEAD.strip()},{','.join(NAMES)}\na,1,2,3,,{hours}\n", "utf-8")

    with pytest.raises(BuildFailed) as error:
        read_places(file)

    assert "line 2: " in str(error.value)
    assert HOURS[hours] in str(error.value)


def test_a_place_has_its_own_working_days_or_hours_or_neither(tmp_path, monkeypatch):
    (tmp_path / "fleetlake.toml").touch()
    monkeypatch.chdir(tmp_path)
    rows = ("a,1.05,2,3,,167,,", "b,1.05,2,3,,,0,24", "c,1.05,2,3,,,,")
    text = "\n".join([f"{HEAD.strip()},{','.join(NAMES)}", *rows, ""])
    (tmp_path / "places.csv").write_text(text, "utf-8")

    lines = place_seeds()["places.csv"].splitlines()

    assert lines[0].split(",")[-3:] == list(NAMES)
    assert [line.split(",")[-3:] for line in lines[1:]] == [
        ["167", "", ""],
        ["", "0", "24"],
        ["", "", ""],
    ]


def test_the_line_of_a_wrong_row_counts_blank_lines_and_the_lines_of_a_polygon(tmp_path):
    file = place(tmp_path, 'a,,,,"POLYGON ((0 0, 1 0,\n1 1, 0 0))"', "", "b,nan,2,3,")

    with pytest.raises(BuildFailed, match="rows: line 5: "):
        read_places(file)


def test_every_wrong_row_is_named_up_to_ten(tmp_path):
    with pytest.raises(BuildFailed, match=r"line 2: .*; line 11: .*; and 5 more"):
        read_places(place(tmp_path, *[",1,2,3,"] * 15))


def test_a_file_with_other_columns_or_in_another_encoding_is_refused(tmp_path):
    file = tmp_path / "places.csv"
    for content in (b"title,x\na,1\n", b"name\n\xff\n", b""):
        file.write_bytes(content)
        with pytest.raises(BuildFailed, match=r"places\.csv has wrong rows"):
            read_places(file)


def test_places_become_seeds_of_the_build_and_a_changed_place_builds_everything(
    tmp_path, monkeypatch
):
    (tmp_path / "fleetlake.toml").touch()
    monkeypatch.chdir(tmp_path)
    before = project_digest(project_folder())
    assert ready_project(project_folder(), tmp_path / "work") == project_folder()

    place(tmp_path, "Depot,39.5,-104.5,150,")

    seeds = ready_project(project_folder(), tmp_path / "work") / "seeds"
    assert {path.name: path.is_symlink() for path in seeds.iterdir()} == {
        "_seeds.yml": True,
        "carrier_codes.csv": True,
        "carrier_plans.csv": True,
        "security_event_types.csv": True,
        "places.csv": False,
        "place_edges.csv": False,
    }
    assert (
        (seeds / "places.csv").read_text().splitlines()[1].startswith("Depot,394,39.5,-104.5,150")
    )
    assert len((seeds / "places.csv").read_text().splitlines()) == 3  # it touches two bands
    assert project_digest(project_folder()) != before


def test_the_seeds_of_the_package_are_empty_and_have_the_columns_of_those_of_a_project(
    tmp_path, monkeypatch
):
    (tmp_path / "fleetlake.toml").touch()
    monkeypatch.chdir(tmp_path)
    place(tmp_path, "Depot,39.5,-104.5,150,")

    for name, text in place_seeds().items():
        assert (project_folder() / "seeds" / name).read_text() == text.splitlines()[0] + "\n"


def test_a_lake_can_be_opened_beside_a_wrong_file_of_places(tmp_path, monkeypatch, lake_path):
    (tmp_path / "fleetlake.toml").touch()
    monkeypatch.chdir(tmp_path)
    place(tmp_path, "a,x,2,3,")

    with open_lake(lake_path, read_only=True) as opened:
        assert opened.rows("select count(*) from raw.routers") == [(0,)]
