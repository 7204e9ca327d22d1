"""The table that `make bench` ends with."""

import pkgutil
from dataclasses import replace

import bench
import pytest
from bench import __main__ as command
from bench import kept
from bench.machine import Machine
from bench.table import Answers, Origin, Row, render_answers, render_page

VERSIONS = {"Python": "3.11", "Spark": "4.2.0", "pyarrow": "25", "Java": "21", "Flink": "2.3.0"}
ORIGIN = Origin("abc", "2026-11-21 08:00 UTC", Machine("x", 2, 8, "6", VERSIONS), 0.2)


def cells(row):
    shown = render_answers([Answers("b", (row,), ORIGIN)])
    return [each.strip() for each in shown.splitlines()[2].split("|")]


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


def test_the_page_tells_where_each_was_measured():
    other = replace(ORIGIN, commit="def")
    page = render_page(
        [Answers("a", (Row("first", 2),), ORIGIN), Answers("b", (Row("second", 3),), other)]
    )
    assert page.index("first") < page.index("second")
    for part in ("`a`: commit abc", "`b`: commit def", "2026-11-21 08:00 UTC", "`make bench`"):
        assert part in page
    for part in ("2 cores (x)", "8 GiB", "Linux 6"):
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


def test_what_was_answered_is_kept_and_shown(benchmarks, monkeypatch, capsys):
    monkeypatch.setattr(command, "names", lambda: ["works"])
    assert command.main([]) == 0
    assert "| `works` | how | 1.50 |" in benchmarks.read_text("utf-8")
    assert "| `works` | how | 1.50 |" in capsys.readouterr().out
    assert kept.load(benchmarks.with_suffix(".json"))["works"].rows == (Row("how", 1.5),)


def test_one_that_is_asked_alone_replaces_its_own_answers_only(benchmarks, monkeypatch, capsys):
    before = {
        name: Answers(name, (Row("old", 7.0, "MB", at_most=8.0),), ORIGIN)
        for name in ("other", "works")
    }
    kept.save(benchmarks.with_suffix(".json"), before)
    assert kept.load(benchmarks.with_suffix(".json")) == before
    monkeypatch.setattr(command, "names", lambda: ["works", "breaks"])
    assert command.main(["works"]) == 0
    assert "1.50" in capsys.readouterr().out
    found = kept.load(benchmarks.with_suffix(".json"))
    assert found["other"] == before["other"]
    assert found["works"].rows == (Row("how", 1.5),)
    assert "old" in benchmarks.read_text("utf-8")


def test_one_that_fails_costs_nothing_of_the_others(benchmarks, monkeypatch, capsys):
    monkeypatch.setattr(command, "names", lambda: ["breaks", "works"])
    assert command.main([]) == 1
    shown = capsys.readouterr()
    assert "1.50" in shown.out
    assert "no disk" in shown.err
    assert "failed: breaks" in shown.err
    assert "1.50" in benchmarks.read_text("utf-8")


def test_answers_of_another_version_are_refused(tmp_path):
    path = tmp_path / "bench.json"
    path.write_text('{"format_version": 2, "answers": []}')
    with pytest.raises(ValueError, match="another version"):
        kept.load(path)


def test_an_unknown_name_runs_nothing(capsys):
    assert command.main(["log_strat"]) == 2
    assert "no benchmark log_strat; there are: bad_record" in capsys.readouterr().err
