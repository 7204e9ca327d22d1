"""The table that `make bench` ends with."""

import pkgutil

import bench
import pytest
from bench import __main__ as command
from bench.machine import Machine
from bench.table import Answers, Origin, Row, render_answers, render_page

VERSIONS = {"Python": "3.11", "Spark": "4.2.0", "pyarrow": "25", "Java": "21", "Flink": "2.3.0"}
ORIGIN = Origin("make bench", "abc", "2026-11-21 08:00 UTC", Machine("x", 2, 8, "6", VERSIONS), 0.2)


def cells(row):
    return [
        each.strip() for each in render_answers([Answers("b", (row,))]).splitlines()[2].split("|")
    ]


@pytest.mark.parametrize(
    ("row", "figure", "aim"),
    [
        (Row("q", 1.0), "1.00", ""),
        (Row("q", 0.0412), "0.0412", ""),
        (Row("q", 12.34, "MB"), "12.3 MB", ""),
        (Row("q", 1234567.8, "records/s"), "1,234,568 records/s", ""),
        (Row("q", 23, "calls"), "23.0 calls", ""),
        (Row("q", 1.1, at_most=1.1), "1.10", "at most 1.1"),
        (Row("q", 1.104, at_most=1.1), "1.10", "at most 1.1"),
        (Row("q", 1.11, at_most=1.1), "1.11", "at most 1.1: MISSED"),
        (Row("q", 1.39, at_least=1.4), "1.39", "at least 1.4: MISSED"),
        (Row("q", 1.4, at_least=1.4), "1.40", "at least 1.4"),
    ],
)
def test_a_row_shows_its_figure_and_whether_it_reaches_its_aim(row, figure, aim):
    assert cells(row)[1:-1] == ["`b`", "q", figure, aim]


def test_the_page_tells_where_it_was_measured_and_what_was_not_run():
    page = render_page(
        [Answers("a", (Row("first", 2),)), Answers("b", (Row("second", 3),))], ORIGIN
    )
    assert page.index("first") < page.index("second")
    for part in ("abc", "2026-11-21 08:00 UTC", "`make bench`", "2 cores (x)", "8 GiB", "Linux 6"):
        assert part in page
    assert "Flink" not in page


def test_every_module_is_a_benchmark_or_a_helper():
    found = {each.name for each in pkgutil.iter_modules(bench.__path__) if not each.ispkg}
    assert set(command.names()) == found - command.HELPERS
    assert found >= command.HELPERS
    assert {"bad_record", "task_memory", "start_up", "commit_overhead"} <= set(command.names())


@pytest.fixture
def benchmarks(tmp_path, monkeypatch):
    """Replace the benchmarks by two files of the test's own; return the page's path."""
    (tmp_path / "works.py").write_text(
        '"""Works."""\nfrom bench.table import Row\ndef main():\n    return [Row("how", 1.5)]\n'
    )
    (tmp_path / "breaks.py").write_text(
        '"""Breaks."""\ndef main():\n    raise OSError("no disk")\n'
    )
    monkeypatch.setattr(bench, "__path__", [*bench.__path__, str(tmp_path)])
    monkeypatch.setattr(command, "PAGE", tmp_path / "results" / "bench.md")
    monkeypatch.setattr(command, "describe_machine", lambda: ORIGIN.machine)
    return command.PAGE


def test_a_run_of_all_keeps_its_table(benchmarks, monkeypatch, capsys):
    monkeypatch.setattr(command, "names", lambda: ["works"])
    assert command.main([]) == 0
    assert "| `works` | how | 1.50 |" in benchmarks.read_text("utf-8")
    assert "| `works` | how | 1.50 |" in capsys.readouterr().out


def test_a_run_of_some_shows_its_table_only(benchmarks, monkeypatch, capsys):
    monkeypatch.setattr(command, "names", lambda: ["works", "breaks"])
    assert command.main(["works"]) == 0
    assert "1.50" in capsys.readouterr().out
    assert not benchmarks.exists()


def test_one_that_fails_costs_the_page_but_not_the_others(benchmarks, monkeypatch, capsys):
    monkeypatch.setattr(command, "names", lambda: ["breaks", "works"])
    assert command.main([]) == 1
    shown = capsys.readouterr()
    assert "1.50" in shown.out
    assert "no disk" in shown.err
    assert "failed: breaks" in shown.err
    assert not benchmarks.exists()


def test_an_unknown_name_runs_nothing(capsys):
    assert command.main(["log_strat"]) == 2
    assert "no benchmark log_strat; there are: bad_record" in capsys.readouterr().err
