"""The comparison with peers: what can be told without running it."""

import io
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq
import pytest
from bench.machine import Machine
from bench.peers import readme
from bench.peers.compare import rotated
from bench.peers.lakehouse import count_rows, create_table, lister, table_directory
from bench.peers.measure import Stored, count_calls, list_table
from bench.peers.peer import Order
from bench.peers.report import TITLES, render_page, render_shape
from bench.peers.results import Calls, Fresh, Results, Run
from bench.peers.run import LAKEHOUSE, PEERS, PeerProcess
from bench.peers.settings import LAKEHOUSE_SETTINGS, SETTINGS
from bench.peers.shapes import SHAPES, WIDE
from bench.peers.streaming import list_committed, list_final, time_between
from bench.peers.workload import make_records
from bench.processes import ChildFailed, Meter
from deltalake import write_deltalake
from pyiceberg.catalog import load_catalog

from ashore.tables.ddl import Atom, parse_ddl
from ashore.topics.decode.registry import make_decoder


def make_run(peer: str, repeat: int, seconds: float) -> Run:
    return Run("small", peer, repeat, 1_000_000, 125_000_000, seconds, 4.0, 10**9, 8, 25_000_000)


RESULTS = Results(
    commit="abc",
    command="make bench-peers",
    began="2026-11-21 12:00 UTC",
    machine=Machine("a processor", 2, 8.0, "6.1", {"Spark": "4.2.0"}),
    load_before=0.1,
    runs=tuple(
        make_run(peer, repeat, seconds + repeat)
        for peer, seconds in (("ashore", 1.0), ("spark", 4.0), ("flink", 3.0))
        for repeat in range(3)
    ),
    fresh=(Fresh("ashore", 100, 0.5, 1.25, 0.75),),
    calls=(Calls("ashore", 100, 2, {"open": 6, "sync": 4}),),
)


# --- records -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "size_bytes", "fields"), [("small", 125, 6), ("large", 1_028, 26)]
)
def test_records_have_the_columns_and_the_size_of_their_shape(
    name: str, size_bytes: int, fields: int
):
    shape, arrow = SHAPES[name], {"BIGINT": pa.int64(), "DOUBLE": pa.float64()}
    arrow |= {"STRING": pa.string(), "BOOLEAN": pa.bool_()}
    records = list(make_records(shape, 3_000))
    assert abs(sum(map(len, records)) / len(records) - size_bytes) < 0.04 * size_bytes  # ids grow
    table = pj.read_json(io.BytesIO(b"\n".join(records)))
    assert len(shape.columns) == fields
    assert {field.name: field.type for field in table.schema} == {
        column: arrow[kind] for column, kind in shape.columns
    }
    assert table.num_rows == 3_000
    assert not any(column.null_count for column in table.columns)


def test_records_are_the_same_each_time():
    shape = SHAPES["small"]
    assert list(make_records(shape, 100)) == list(make_records(shape, 100))


@pytest.mark.parametrize("shape", SHAPES.values(), ids=lambda shape: shape.name)
def test_ashore_reads_the_columns_that_the_peers_read(shape):
    fields = parse_ddl(shape.ddl).fields
    assert [field.name for field in fields] == [name for name, _ in shape.columns]
    if shape.name != "nested":
        assert all(isinstance(field.type, Atom) for field in fields)


@pytest.mark.parametrize("shape", WIDE, ids=lambda shape: shape.name)
def test_records_of_wide_shapes_are_rows_of_their_columns(shape):
    """No record is refused, and no field is left over."""
    decoder = make_decoder("json", parse_ddl(shape.ddl))
    decoded = decoder.decode(pa.array(make_records(shape, 500), pa.binary()))
    assert decoded.table.num_rows == 500
    assert (decoded.bad, decoded.unknown_records) == ((), 0)


def test_wide_shapes_are_as_wide_as_their_titles_say():
    shapes = {shape.name: shape for shape in WIDE}
    rows = [json.loads(record) for record in make_records(shapes["columns"], 500)]
    nulls = sum(value is None for row in rows for value in row.values())
    assert {len(row) for row in rows} == {200}
    assert 0.3 < nulls / (500 * 200) < 0.37
    sizes = [len(record) for record in make_records(shapes["huge"], 500)]
    assert 9_500 < sum(sizes) / 500 < 11_500
    shops = {json.loads(each)["shop"] for each in make_records(shapes["directories"], 5_000)}
    assert len(shops) == 200


def test_flink_spells_nested_types_in_its_own_way():
    (nested,) = (shape for shape in WIDE if shape.name == "nested")
    assert "`user` ROW<name STRING, address ROW<city STRING, zip BIGINT>>" in nested.flink_ddl
    assert SHAPES["large"].flink_ddl == SHAPES["large"].ddl


# --- measuring ---------------------------------------------------------------------------------


def test_each_peer_is_first_in_turn():
    repeats = range(len(PEERS) + 1)
    assert [rotated(PEERS, repeat)[0] for repeat in repeats] == [*PEERS, PEERS[0]]
    assert all(sorted(rotated(PEERS, repeat)) == sorted(PEERS) for repeat in repeats)


def test_a_meter_counts_children_that_ended_and_leaves_out_who_is_excluded():
    """The work of a child is counted once it is waited for; the excluded process is not."""
    burn = "sum(range(3_000_000))"
    script = (
        "import os, subprocess, sys\n"
        "print(os.getpid(), flush=True); sys.stdin.readline()\n"
        f"subprocess.run([sys.executable, '-c', '{burn}'], check=True)\n"
        "print('done', flush=True); sys.stdin.readline()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        with Meter(pid, ()) as whole, Meter(pid, {pid}) as nobody:
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "done\n"
        process.stdin.close()
    assert whole.usage.cpu_s > 0.02
    assert whole.usage.rss_peak_bytes > 5_000_000
    assert nobody.usage.cpu_s == 0


def write_rows(path: Path, rows: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": range(rows)}), path)


def test_hidden_files_are_not_counted(tmp_path: Path):
    write_rows(tmp_path / "part-0", 3)
    write_rows(tmp_path / "hour=1" / "b.parquet", 4)
    write_rows(tmp_path / ".ashore" / "c.in-progress", 5)
    write_rows(tmp_path / "_temporary" / "d.parquet", 6)
    write_rows(tmp_path / ".part-1.inprogress", 7)
    visible = [tmp_path / "part-0", tmp_path / "hour=1" / "b.parquet"]
    size_bytes = sum(path.stat().st_size for path in visible)
    assert list_table(tmp_path) == Stored(2, size_bytes, 7)
    assert list_final(tmp_path) == set(visible)
    assert list_final(tmp_path / "nowhere") == set()


def test_a_file_of_spark_is_readable_when_the_metadata_names_it(tmp_path: Path):
    write_rows(tmp_path / "part-0.parquet", 3)
    write_rows(tmp_path / "part-1.parquet", 3)
    assert list_committed(tmp_path) == set()
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    (log / "0").write_text(f'v1\n{{"path":"file://{tmp_path}/part-0.parquet","size":1}}')
    (log / ".1.tmp").write_text(f'v1\n{{"path":"file://{tmp_path}/part-1.parquet","size":1}}')
    assert list_committed(tmp_path) == {tmp_path / "part-0.parquet"}


def test_files_that_become_readable_together_are_one_moment():
    assert time_between([0.0, 20.0, 1_000.0, 1_030.0, 2_100.0]) == pytest.approx(1.05)
    assert time_between([5.0]) == time_between([]) == 0


def test_calls_are_counted_by_kind_below_one_directory(tmp_path: Path):
    trace = tmp_path / "trace"
    trace.write_text(
        '11 9.999999 openat(AT_FDCWD</x>, "/t/table/.before", O_WRONLY) = 7</t/table/.before>\n'
        '11 10.000000 openat(AT_FDCWD</x>, "/t/table/.a", O_WRONLY|O_CREAT) = 7</t/table/.a>\n'
        '12 10.100000 openat(AT_FDCWD</x>, "/t/table/.b",  <unfinished ...>\n'
        "12 10.200000 <... openat resumed>O_RDONLY) = 8</t/table/.b>\n"
        "11 10.300000 fsync(7</t/table/.a>) = 0\n"
        '11 10.400000 rename("/t/table/.a", "/t/table/a") = 0\n'
        '11 10.500000 openat(AT_FDCWD</x>, "/elsewhere", O_RDONLY) = 9</elsewhere>\n'
        "11 10.600000 +++ exited with 0 +++\n"
    )
    assert count_calls(trace, Path("/t/table"), 10.0) == {"open": 2, "sync": 1, "rename": 1}


def test_a_peer_that_fails_is_named_with_what_it_said_and_leaves_nothing(tmp_path: Path):
    order = Order("nobody", "small", "127.0.0.1:1", ("t",), str(tmp_path / "run"), 1.0)
    with PeerProcess(order) as process, pytest.raises(ChildFailed, match="nobody_peer") as caught:
        process.expect("ready")
    assert "No module named" in str(caught.value)
    with pytest.raises(ProcessLookupError):
        os.killpg(process.session, 0)


# --- lakehouse tables ----------------------------------------------------------------------------


def rows_of_small(count: int) -> pa.Table:
    records = b"\n".join(make_records(SHAPES["small"], count))
    return pj.read_json(io.BytesIO(records))


def test_files_of_an_iceberg_table_are_those_of_its_current_snapshot(tmp_path: Path):
    order = Order("connect-iceberg", "small", "127.0.0.1:1", ("t",), str(tmp_path), 1.0)
    root, find = order.root("t"), lister(order, "t")
    assert (find(), count_rows(root)) == (set(), 0)
    create_table(order, "t")
    assert (find(), count_rows(root)) == (set(), 0)
    catalog = load_catalog("ashore", type="sql", uri=f"sqlite:///{root}/iceberg.db")
    table = catalog.load_table("peers.records")
    table.append(rows_of_small(10))
    first = find()
    table.append(rows_of_small(5))
    assert (len(first), len(find()), count_rows(root)) == (1, 2, 15)
    assert first < find()
    table.delete("id >= 0")
    assert (find(), count_rows(root)) == (set(), 0)
    catalog.close()


def test_files_of_a_delta_table_are_those_of_its_current_version(tmp_path: Path):
    order = Order("spark-delta", "small", "127.0.0.1:1", ("t",), str(tmp_path), 1.0)
    find, directory = lister(order, "t"), table_directory(order.root("t"))
    assert find() == set()
    write_deltalake(directory, rows_of_small(10))
    first = find()
    write_deltalake(directory, rows_of_small(5), mode="append")
    assert (len(first), len(find())) == (1, 2)
    assert all(path.is_file() for path in find())
    write_deltalake(directory, rows_of_small(5), mode="overwrite")
    assert len(find()) == 1


# --- results and their tables ------------------------------------------------------------------


def test_results_can_be_read_back(tmp_path: Path):
    RESULTS.save(tmp_path / "peers.json")
    assert Results.load(tmp_path / "peers.json") == RESULTS


def test_results_of_another_version_are_refused(tmp_path: Path):
    path = tmp_path / "peers.json"
    RESULTS.save(path)
    path.write_text(path.read_text().replace('"format_version": 1', '"format_version": 0'))
    with pytest.raises(ValueError, match="another version"):
        Results.load(path)


def test_a_row_has_medians_and_the_ratio_to_the_better_peer():
    rows = [line.split("|")[2:5] for line in render_shape(RESULTS, "small").splitlines()]
    cells = [[cell.strip() for cell in row] for row in rows]
    # Medians of 2, 5 and 4 seconds: a million records each.
    assert cells[2:] == [["500", "2.00", "250"], ["200", "0.80", "100"], ["250", "1.00", "125"]]


def test_every_setting_is_on_the_page():
    page = render_page(RESULTS)
    for each in SETTINGS:
        assert f"| {TITLES[each.peer]} | {each.name} | {each.value} |" in page


def test_lakehouse_tables_have_their_metadata_and_settings():
    runs = tuple(
        replace(make_run(peer, 0, 1.0 + number), metadata_bytes=7_000)
        for number, peer in enumerate(LAKEHOUSE)
    )
    results = replace(RESULTS, runs=runs, calls=())
    page = render_page(results)
    table = [line.split("|") for line in render_shape(results, "small").splitlines()]
    assert [row[10].strip() for row in table] == ["metadata KB", "--:", *["7"] * len(LAKEHOUSE)]
    assert [row[1].strip() for row in table[2:]] == [TITLES[peer] for peer in LAKEHOUSE]
    for each in LAKEHOUSE_SETTINGS:
        assert f"| {TITLES[each.peer]} | {each.name} | {each.value} |" in page


def test_the_readme_shows_the_results():
    assert not readme.find_stale(), "run: python -m bench.peers table"


def test_a_stale_readme_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    RESULTS.save(tmp_path / "peers.json")
    monkeypatch.setattr(readme, "RESULTS", tmp_path / "peers")
    text = readme.render_readme(f"before\n{readme.BEGIN}old\n{readme.END}after\n")
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert readme.render_readme(text) == text
    slower = replace(RESULTS, runs=tuple(replace(run, seconds=99.0) for run in RESULTS.runs))
    slower.save(tmp_path / "peers.json")
    assert readme.render_readme(text) != text


def test_shapes_that_were_not_measured_again_are_kept():
    large = tuple(replace(run, shape="large") for run in RESULTS.runs)
    before = replace(RESULTS, runs=(*large, *RESULTS.runs))
    again = replace(RESULTS, runs=tuple(replace(run, seconds=9.0) for run in RESULTS.runs))
    merged = again.with_others(before)
    assert merged.runs == (*again.runs, *large)
    assert f"Measured before: large: {before.began}, commit {before.commit}." in render_page(merged)


def test_a_readme_without_markers_is_refused():
    with pytest.raises(ValueError, match="no markers"):
        readme.render_readme("nothing")
