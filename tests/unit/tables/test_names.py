import pytest

from ashore.tables.names import escape, parse_partition_path, partition_path, unescape


def test_what_hive_escapes_is_escaped_and_nothing_else():
    special = "\"#%'*/:=?\\{[]^\x7f" + "".join(map(chr, range(32)))
    for code in range(0x250):
        char = chr(code)
        assert escape(char) == (f"%{code:02X}" if char in special else char)


def test_paths():
    path = partition_path(["date", "a=b"], ["2026-11-21", "x/y z}"])
    assert path == "date=2026-11-21/a%3Db=x%2Fy z}"
    assert parse_partition_path(path) == [("date", "2026-11-21"), ("a=b", "x/y z}")]
    assert partition_path([], []) == ""
    assert parse_partition_path("") == []


@pytest.mark.parametrize("path", ["date", "=x", "date=", "a=1//b=2"])
def test_other_paths_are_refused(path):
    with pytest.raises(ValueError, match="is not a partition"):
        parse_partition_path(path)


def test_a_percent_that_is_no_escape_stays():
    assert unescape("100%") == "100%"
    assert unescape("%zz%2f") == "%zz/"
