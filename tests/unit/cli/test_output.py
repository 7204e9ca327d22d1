"""Tables on a terminal."""

import io
import re

import pytest
from rich.console import Console

from ashore.cli import output

COLUMNS = {"table": "left", "fetched": "right", "landed": "right", "bytes": "right", "why": "left"}
ROWS = [
    ["ods.clicks_of_all_countries", "1,234,567,890", "1,234,567,000", "123.4 GB", "ok"],
    ["ods.orders", "12", "11", "1.2 KB", "one record of them is not valid JSON, on purpose"],
]


def printed(monkeypatch: pytest.MonkeyPatch, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    monkeypatch.setattr(output, "out", console)
    output.print_table("job clicks", COLUMNS, ROWS)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [50, 80, 200])
def test_no_word_and_no_number_is_folded(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    text = printed(monkeypatch, width)
    assert max(map(len, text.splitlines())) <= width
    for cell in (cell for row in ROWS for cell in row):
        for word in re.split(r"[ \u00a0]", cell):
            assert re.search(rf"(?<![\w,.]){re.escape(word)}(?![\w.])", text), (word, text)


def test_a_table_that_fits_is_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(monkeypatch, 200).splitlines()
    assert len([line for line in lines if "ods." in line]) == 2
    assert "fetched" not in "".join(line for line in lines if "ods." in line)


def test_markup_in_a_cell_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(file=io.StringIO(), width=80)
    monkeypatch.setattr(output, "out", console)
    output.print_table("", {"topic": "left"}, [["[red]a[/]"]])
    assert "[red]a[/]" in console.file.getvalue()
