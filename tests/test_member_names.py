"""Members may have any name; typed paths and column names may not."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlake.endpoints import ENDPOINTS
from fleetlake.lake.evolution.member_values import (
    LONGEST_NAME,
    RESERVED,
    column_name,
    format_path,
    parse_path,
)

parts = st.text(max_size=20) | st.sampled_from(["a.b", '"a"', "a\\", ".", "", '"', "\x00", "\n"])


@given(st.lists(parts, min_size=1, max_size=4))
def test_every_path_to_a_member_has_a_unique_spelling(path: list[str]) -> None:
    assert parse_path(format_path(path)) == tuple(path)
    assert format_path(path).isprintable()


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", '"a', 'a"b', "a\\b"])
def test_an_invalid_spelling_of_a_path_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a path"):
        parse_path(text)


@given(
    st.lists(parts | st.text(max_size=200), min_size=1, max_size=4),
    st.booleans(),
    st.sets(st.sampled_from(["a", "a_b", "member", "ID", "x" * LONGEST_NAME])),
)
def test_a_column_name_is_valid_in_every_database_and_unique(
    path: list[str], is_relation: bool, taken: set[str]
) -> None:
    name = column_name(path, is_relation=is_relation, taken=taken)

    assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
    assert len(name) <= LONGEST_NAME
    assert name not in RESERVED
    assert name not in {column.lower() for column in taken}


@pytest.mark.parametrize(
    ("member", "column"),
    [
        ("signal-strength", "signal_strength"),
        ("5g_band", "member_5g_band"),
        ("o'brien", "o_brien"),
        ("_row", "member_row"),
        ("valid_from", "member_valid_from"),
        ("account_profile", "member_account_profile"),
        ("SignalStrength", "signalstrength"),
        ("Größe", "gro_e"),
        ("🛰", "member"),
        ("", "member"),
        ("x" * 1000, "x" * LONGEST_NAME),
    ],
)
def test_a_columns_name_resembles_its_members_name(member: str, column: str) -> None:
    assert column_name([member], is_relation=False, taken=[]) == column


def test_no_column_of_the_endpoint_table_has_a_reserved_name() -> None:
    for endpoint in ENDPOINTS.values():
        names = {column.name for column in endpoint.columns}
        assert not names & RESERVED
        assert not [name for name in names if name.startswith("_")]
