"""Tables on a terminal."""

import io
import re

import pytest
from rich.console import Console

from ashore.cli import output
from ashore.errors import LogError
from ashore.jobs.failure import Failed

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


PATH = "/data/lakes/production/.ashore/clicks_of_all_countries/log/000000000118-of-the-job.json"


def reported(monkeypatch: pytest.MonkeyPatch, width: int, *, terminal: bool = True) -> str:
    console = Console(
        file=io.StringIO(), width=width, highlight=False, force_terminal=terminal, no_color=True
    )
    monkeypatch.setattr(output, "talk", console)
    error = LogError(
        f"the entry {PATH} [not JSON] cannot be read: 118 bytes of 1,234,567 bytes are there,"
        " and nobody knows the others\n  a line that is indented",
        hint=f"restore {PATH} from a copy, or accept that the job's history ends before it",
    )
    output.print_failure(Failed.of(error))
    return re.sub(r"\x1b\[[\d;]*m", "", console.file.getvalue())


@pytest.mark.parametrize("width", [50, 80, 200])
def test_an_error_is_folded_between_words(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    text = reported(monkeypatch, width)
    assert all(len(line) <= width for line in text.splitlines() if PATH not in line), text
    assert text.count(PATH) == 2
    assert text.split() == reported(monkeypatch, width, terminal=False).split()
    assert "\n  a line that is indented" in text


def test_an_error_in_a_file_keeps_its_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(reported(monkeypatch, 50, terminal=False).splitlines()) == 3


@pytest.mark.parametrize("text", ["[red]x", r"topics `\[x]+`", "a[1]", "[0, 24)", "C:\\[x]\\"])
def test_lines_are_printed_as_they_are(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    console = Console(file=io.StringIO(), width=80, highlight=False)
    monkeypatch.setattr(output, "out", console)
    output.print_lines([text])
    assert console.file.getvalue() == f"{text}\n"
