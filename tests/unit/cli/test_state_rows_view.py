"""Rows of state on a terminal and as JSON."""

import json

import pytest
from tests.unit.cli.test_commands import invoke

from ashore.cli.output import printable
from ashore.cli.state_rows_view import diff_document, rows_document, show_diff, show_rows
from ashore.jobs.events import StateChanges, StateRows
from ashore.queries.tools.state_rows import RowsFound

KEYS, VALUES = ("window", "country"), ("n", "country")
WINDOW = {"start": "2026-11-21T08:00:00.000000Z", "end": "2026-11-21T09:00:00.000000Z"}
ROW = {
    "partition": 1,
    "key": {"window": WINDOW, "country": "D\x1b[31mE\n"},
    "value": {"n": 12345678901234567890, "country": None},
}


def rows(*found: object, is_named: bool = False, written: int | None = None) -> StateRows:
    texts = tuple(json.dumps(each) for each in found)
    return StateRows(
        0, "stateStoreSave", "default", KEYS, VALUES, is_named, texts, bool(found), written
    )


def found(*tables: StateRows | StateChanges, before: int | None = None) -> RowsFound:
    return RowsFound("/data/clicks", 7, before, None, tables)


def test_a_window_has_a_start_and_an_end_and_a_terminal_is_left_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_rows(found(rows(ROW)), None)
    out, err = capsys.readouterr()
    (header,) = [line.split() for line in out.splitlines() if "window.start" in line]
    assert header == ["partition", "window.start", "window.end", "country", "n", "value.country"]
    (cells,) = [line.split() for line in out.splitlines() if "08:00" in line]
    assert cells == [
        *("1", WINDOW["start"], WINDOW["end"]),
        *(r"D\x1b[31mE\n", "12345678901234567890", "NULL"),
    ]
    assert "\x1b[31m" not in out
    assert "there are more" in err
    assert "named by Spark" in err


def test_no_rows_are_said_and_files_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows(found(rows(), rows(written=1)), "rows.parquet")
    out, _ = capsys.readouterr()
    assert "no rows" in out
    assert "1 row written to rows.parquet" in out


def test_a_difference_has_marks_counts_and_the_value_before(
    capsys: pytest.CaptureFixture[str],
) -> None:
    changed = {"change": "changed", **ROW, "before": {"n": 3, "country": "X"}}
    added = {"change": "added", **ROW, "before": None}
    table = StateChanges(1, 0, 1, False, rows(changed, added))
    show_diff(found(table, before=3), None)
    out, _ = capsys.readouterr()
    assert "from batch 3 to batch 7" in out
    assert "1 added, 0 removed, 1 changed" in out
    lines = [line.split() for line in out.splitlines() if "08:00" in line]
    assert [each[0] for each in lines] == ["~", "+"]
    assert lines[0][-2:] == ["3", "X"]
    document = diff_document(found(table, before=3), None)
    assert document["from_batch"] == 3
    (told,) = json.loads(json.dumps(document))["tables"]
    assert (told["added"], told["removed"], told["changed"]) == (1, 0, 1)
    assert told["rows"] == [changed, added]


def test_a_bag_has_no_changed_rows(capsys: pytest.CaptureFixture[str]) -> None:
    table = StateChanges(1, 2, 0, True, rows())
    show_diff(found(table, before=3), None)
    out, _ = capsys.readouterr()
    assert "1 added, 2 removed\n" in out
    assert "no row differs" in out
    (told,) = json.loads(json.dumps(diff_document(found(table, before=3), None)))["tables"]
    assert told["changed"] is None


def test_rows_as_json_are_as_spark_wrote_them() -> None:
    document = json.loads(json.dumps(rows_document(found(rows(ROW)), None)))
    (table,) = document.pop("tables")
    assert document == {"checkpoint": "/data/clicks", "batch": 7, "job_version": None}
    assert table["rows"] == [ROW]
    assert (table["names"], table["has_more"]) == ("spark", True)


def test_options_that_choose_rows_need_them() -> None:
    code, _, err = invoke("checkpoint", "inspect", "somewhere", "--limit", 3, "--key", "a=1")
    assert code == 2
    assert "--key, --limit choose rows" in " ".join(err.split())


@pytest.mark.parametrize(
    ("text", "shown"), [("plain é 漢", "plain é 漢"), ("\x07\u202e", r"\x07\u202e"), ("\t", r"\t")]
)
def test_what_cannot_be_printed_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown
