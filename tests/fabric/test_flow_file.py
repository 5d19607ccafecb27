"""Flow files: what they say, and one line for what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglb.fabric.flow_file import FileFlow, parse_flows, read_flow_file
from sglb.fabric.yaml_source import SourceError

GOOD = """\
2
0 5 3 100 200000 2.000000001

3 1 3 100 1 2  # a comment
beyond the count nobody looks
"""


def test_flows_by_hand() -> None:
    assert parse_flows(GOOD, "f") == [
        FileFlow(0, 5, 200_000, 2_000_000_001_000),
        FileFlow(3, 1, 1, 2_000_000_000_000),
    ]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (GOOD, "", "f: is empty; it must begin with the count of flows"),
        ("2\n", "two\n", "f:1: must be the count of flows alone"),
        ("2\n", "9\n", "f:1: has 3 flows, its first line says 9"),
        ("0 5 3 100", "0 5 3", "f:2: a flow is `src dst class port bytes start`, got 5 words"),
        ("0 5", "x 5", "f:2: src must be a whole number, got 'x'"),
        ("200000", "0", "f:2: bytes must be 1 to"),
        ("2.000000001", "-1", "f:2: start must be seconds, 0 to 86400, got '-1'"),
        ("2.000000001", "nan", "f:2: start must be seconds"),
    ],
)
def test_one_line_for_a_mistake(old: str, new: str, said: str) -> None:
    with pytest.raises(SourceError) as caught:
        parse_flows(GOOD.replace(old, new, 1), "f")
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "flow.txt"
    path.write_text(GOOD)
    assert len(read_flow_file(path)) == 2
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(SourceError, match="is not UTF-8 text"):
        read_flow_file(path)
    with pytest.raises(SourceError, match="cannot be read: No such file"):
        read_flow_file(tmp_path / "none")


@given(st.text(st.sampled_from("0123456789.-+eE #\nnaxi"), max_size=60))
def test_junk_is_a_source_error_or_flows(text: str) -> None:
    try:
        flows = parse_flows(text, "f")
    except SourceError:
        return
    assert all(f.size_bytes > 0 and f.start_ps >= 0 for f in flows)
