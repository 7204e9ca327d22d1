"""The comparison of SQL: what can be told without running an engine."""

import json
import os
import sys
import time
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bench.machine import Machine
from bench.peers.streaming import list_final
from bench.processes import ChildFailed
from bench.sql import measures
from bench.sql.engines import ENGINES, checkpoint_bytes
from bench.sql.flink_engine import find_checkpoint
from bench.sql.inputs import DDL, FAMILIES, FIRST_MS, columns_of
from bench.sql.order import Order
from bench.sql.queries import BY_NAME, QUERIES
from bench.sql.results import (
    HEADINGS,
    MEASURES,
    Measured,
    Results,
    render_measure,
    render_page,
    render_summary,
)
from bench.sql.tree import Tree, read_processes

MACHINE = Machine("a processor", 2, 8.0, "6.1", {"Spark": "4.2.0"})
RATE = {"rate": 1.0, "cpu_s_per_million": 4.0}


def measure(engine: str = "ashore", measure: str = "rate", **others: object) -> Measured:
    fields = {"query": "filter", "engine": engine, "measure": measure, "records": 10}
    fields |= {"commit": "abc", "began": "2026-11-28", "load_before": 0.1, "figures": {}}
    return Measured(**(fields | others))  # type: ignore[arg-type]


# --- records -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAMILIES)
def test_records_are_the_same_each_time_and_have_the_columns_of_their_view(name: str) -> None:
    family = FAMILIES[name]
    made = [list(islice(family.make(10.0), 500)) for _ in range(2)]
    assert made[0] == made[1]
    assert {record.view for record in made[0]} == set(family.views)
    for record in made[0]:
        value = json.loads(record.at(FIRST_MS, family.write_time))
        assert set(value) == set(columns_of(record.view))
    steps = [record.time_ms for record in made[0]]
    assert max(steps) - min(steps) == pytest.approx(5_000, abs=2_100)


def test_each_query_reads_views_that_are_there_and_has_columns_for_flink() -> None:
    assert set(DDL) == {view for family in FAMILIES.values() for view in family.views}
    for query in QUERIES:
        assert query.family in FAMILIES
        assert query.types
        assert bool(query.final_ms) <= query.is_timed
        assert set(query.notes) <= {"all", *ENGINES}


# --- processes -----------------------------------------------------------------------------------

# The kernel counts in ticks of 10 ms, rounded down: 0.4 s are seen as 0.3 at least.
STARTS_ANOTHER = """
import subprocess, sys, time
subprocess.Popen(
    [sys.executable, "-c", "import time\\nwhile time.process_time() < 0.4: pass\\ntime.sleep(60)"],
    start_new_session=True,
)
time.sleep(60)
"""


def test_a_tree_has_processes_of_other_sessions_and_leaves_none(tmp_path: Path) -> None:
    with Tree([sys.executable, "-c", STARTS_ANOTHER], tmp_path / "log", 60) as tree:
        until_s = time.monotonic() + 30
        while tree.cpu_s < 0.3 and time.monotonic() < until_s:
            time.sleep(0.05)
        assert tree.cpu_s >= 0.3
        found = set(tree._find())
        assert len(found) == 2
        tree.kill()
        assert not found & read_processes().keys()


def test_a_command_that_fails_is_named_with_its_last_words(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "raise SystemExit('no broker')"]
    with Tree(command, tmp_path / "log", 60) as tree, pytest.raises(ChildFailed, match="no broker"):
        tree.wait()


# --- places --------------------------------------------------------------------------------------


def test_an_order_survives_the_way_to_a_process(tmp_path: Path) -> None:
    order = Order("flink", "q8", "a:1", {"person": "p", "auction": "a"}, str(tmp_path), 1.0)
    assert Order.of_text(order.to_text()) == order
    assert order.query is BY_NAME["q8"]


def test_a_checkpoint_is_as_large_as_its_files(tmp_path: Path) -> None:
    order = Order("spark", "q8", "a:1", {}, str(tmp_path))
    assert checkpoint_bytes(order) == 0
    for name, size in {"state/0/1.zip": 10, "offsets/0": 5}.items():
        (order.checkpoint / name).parent.mkdir(parents=True)
        (order.checkpoint / name).write_bytes(b"x" * size)
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "part-0").write_bytes(b"rows")
    assert checkpoint_bytes(order) == 15
    assert list_final(order.table) == {order.table / "part-0"}


def test_flink_goes_on_from_the_newest_complete_checkpoint(tmp_path: Path) -> None:
    assert find_checkpoint(tmp_path) == ""
    for number, name in enumerate(("a/chk-7/_metadata", "b/chk-2/_metadata", "b/chk-3/part")):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (number, number))
    assert find_checkpoint(tmp_path) == f"file://{tmp_path}/b/chk-2"


# --- results -------------------------------------------------------------------------------------


def test_a_new_figure_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    found = Results(MACHINE).adding(measure(figures=RATE)).adding(measure("spark"))
    found = found.adding(measure(figures=RATE | {"rate": 2.0}))
    assert [each.figures.get("rate") for each in found.measured] == [None, 2.0]
    found.save(tmp_path / "sql")
    assert Results.load(tmp_path / "sql").measured == found.measured
    text = (
        (tmp_path / "sql.json")
        .read_text("utf-8")
        .replace('"format_version": 1', '"format_version": 0')
    )
    (tmp_path / "sql.json").write_text(text, "utf-8")
    with pytest.raises(ValueError, match="another version"):
        Results.load(tmp_path / "sql")


def test_tables_have_what_is_wrong_and_what_was_not_measured() -> None:
    found = Results(MACHINE)
    found = found.adding(measure(figures=RATE | {"rate": 123_456.0}, rows=9, missing=2))
    found = found.adding(measure("flink", "latency", why_not="not measured: no time"))
    assert "of 9 rows 2 are missing" in render_measure(found, "rate")
    assert " 123 " in render_measure(found, "rate")
    assert "no time" in render_measure(found, "latency")
    page = render_page(found)
    assert all(heading in page for heading in HEADINGS.values())
    assert all(query.title in page for query in QUERIES)
    assert set(MEASURES) == set(HEADINGS)


def test_the_summary_has_the_rates_of_all_engines_and_ashores_by_theirs() -> None:
    found = Results(MACHINE)
    for engine, rate in {"ashore": 300_000.0, "flink": 200_000.0}.items():
        found = found.adding(measure(engine, figures=RATE | {"rate": rate}))
    cells = [cell.strip() for cell in render_summary(found).splitlines()[2].split("|")]
    assert cells[1:-1] == ["Filter", "300", "-", "200", "4.00", "-", "4.00", "-", "1.50"]


# --- streams -------------------------------------------------------------------------------------


def test_a_file_without_rows_is_no_result(tmp_path: Path) -> None:
    for name, rows in {"empty": [], "before": [1], "after": [1]}.items():
        pq.write_table(pa.table({"id": pa.array(rows, pa.int64())}), tmp_path / name)
    seen_ms = {tmp_path / "before": 1.0, tmp_path / "after": 9.0, tmp_path / "empty": 5.0}
    watcher, tree = SimpleNamespace(seen_ms=seen_ms), SimpleNamespace(check=lambda: None)
    assert measures._wait_for_row(watcher, tree, 0) == 1.0
    assert measures._wait_for_row(watcher, tree, 2) == 9.0
