"""Rows of state, compared with what plain Python makes of the same input."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from tests.checkpoint_files import opened, unpack
from tests.marks import but
from tests.spark.programs import PARTITIONS, Program, Use, clicks, conf, contents, grouped

from ashore.errors import CheckpointUnfit, NotDone
from ashore.jobs.events import Event, StateChanges, StateRows
from ashore.queries.spark.sql.settings import FORMAT
from ashore.queries.spark.state.rows import READING, read_rows
from ashore.queries.state.layout import PROVIDER
from ashore.queries.tools.state_rows import RowsOptions, prepare

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

HDFS_BACKED = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
START = datetime(2026, 1, 1, tzinfo=UTC)
Found = dict[str, list[dict[str, Any]]]


def ask(spark: SparkSession, checkpoint: Path, **asked: Any) -> list[Event]:
    """Do what the command does, with the Spark of this process. The original must stay as it is."""
    scratch = checkpoint.parent / f"scratch-{len(list(checkpoint.parent.iterdir()))}"
    scratch.mkdir()
    before = contents(checkpoint)
    prepared = prepare(
        opened(checkpoint), RowsOptions(str(checkpoint), **asked), scratch, lambda _done, _all: None
    )
    spark.conf.set(FORMAT, str(prepared.request.state_format))
    sent: list[Event] = []
    try:
        read_rows(spark, prepared.request, sent.append)
    finally:
        spark.conf.unset(FORMAT)
        assert contents(checkpoint) == before, "the original was changed"
    return [each for each in sent if isinstance(each, StateRows | StateChanges)]


def rows(spark: SparkSession, checkpoint: Path, **asked: Any) -> Found:
    found = [each for each in ask(spark, checkpoint, **asked) if isinstance(each, StateRows)]
    assert found
    return {each.table: [json.loads(row) for row in each.rows] for each in found}


def at(minute: int) -> str:
    return f"{START + timedelta(minutes=minute):%Y-%m-%dT%H:%M:%S.000000Z}"


def program(spark: SparkSession, use: Use, home: Path, kind: str, **settings: int) -> Path:
    """Run a query over rows k = n % 250, v = n, ts = minute n, for n below 200; the checkpoint."""
    use(conf(**settings))
    made = Program(spark, home, kind)
    made.put()
    made.put()
    made.run(home / "checkpoint")
    return home / "checkpoint"


def late(n: int) -> bool:
    """Tell whether the watermark, an hour before the newest of 200 rows, has passed minute n."""
    return n <= 199 - 60


def pairs(found: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    return sorted(((each["key"], each["value"]) for each in found), key=str)


def window(n: int) -> dict[str, str]:
    return {"start": at(n - n % 5), "end": at(n - n % 5 + 5)}


EXPECTED: dict[str, Callable[[], list[tuple[Any, Any]]]] = {
    "aggregate": lambda: [({"k": n}, {"sum": n, "count": 1}) for n in range(200)],
    "total": lambda: [({}, {"sum": sum(range(200)), "count": 200})],
    "window": lambda: [
        ({"window": window(n), "k": n}, {"sum": float(n), "count": 1})
        for n in range(200)
        if n - n % 5 + 5 > 199 - 60
    ],
    "session window": lambda: [
        (
            {"k": n, "sessionStartTime": at(n)},
            {"session_window": {"start": at(n), "end": at(n + 1)}, "k": n, "count": 1},
        )
        for n in range(200)
        if n + 1 > 199 - 60
    ],
    "distinct": lambda: [({"k": n}, {}) for n in range(200)],
    "distinct within watermark": lambda: [
        ({"k": n // 40}, {"expires at": at(n + 60)})
        for n in range(0, 200, 40)
        if n + 60 > 160 - 60  # the watermark, an hour before the newest
    ],
}


@pytest.mark.parametrize(
    "kind", but(pytest.mark.long, [*EXPECTED], lambda kind: kind in {"aggregate", "session window"})
)
def test_rows_are_what_the_input_makes(
    spark: SparkSession, use: Use, tmp_path: Path, kind: str
) -> None:
    checkpoint = program(spark, use, tmp_path / "program", kind)
    found = rows(spark, checkpoint)
    assert pairs(found["default"]) == sorted(EXPECTED[kind](), key=str)


@pytest.mark.parametrize(
    ("join", "kind"),
    but(
        pytest.mark.long,
        [(2, "inner join"), (3, "inner join"), (2, "outer join"), (3, "outer join")],
        lambda join, kind: (join, kind) in {(2, "inner join"), (3, "outer join")},
    ),
)
def test_a_join_shows_the_rows_of_both_sides(
    spark: SparkSession, use: Use, tmp_path: Path, kind: str, join: int
) -> None:
    checkpoint = program(spark, use, tmp_path / "program", kind, join=join)
    expected = [{"k": n, "v": n, "ts": at(n)} for n in range(200) if not late(n)]
    found = rows(spark, checkpoint)
    assert found.keys() == {"left", "right"}
    for side in found.values():
        assert sorted((each["value"] for each in side), key=str) == sorted(expected, key=str)
        for each in side:
            assert [*each["key"].values()] == [*each["value"].values()]


def test_a_store_of_a_join_can_be_looked_at(spark: SparkSession, tmp_path: Path) -> None:
    (table,) = rows(spark, unpack("join-2", tmp_path), store="left-keyToNumValues").values()
    assert len(table) == 18
    assert {each["value"]["value"] for each in table} == {1}


@pytest.mark.parametrize(
    "case", but(pytest.mark.long, ["hdfs-backed", "format-2", "rocksdb"], lambda c: c != "rocksdb")
)
def test_each_provider_and_format_is_read(spark: SparkSession, tmp_path: Path, case: str) -> None:
    checkpoint = unpack(case, tmp_path)
    found = rows(spark, checkpoint)["default"]
    assert pairs(found) == [({"country": each}, {"count": 6}) for each in ("CN", "DE", "IS")]
    earlier = rows(spark, checkpoint, batch=2)["default"]
    assert {each["value"]["count"] for each in earlier} == {2}


def test_rows_are_chosen_by_key_partition_and_limit(spark: SparkSession, tmp_path: Path) -> None:
    checkpoint = unpack("rocksdb-changelog", tmp_path)
    everything = rows(spark, checkpoint)["default"]
    by_partition = Counter(each["partition"] for each in everything)
    for partition, count in by_partition.items():
        found = rows(spark, checkpoint, partition=partition)["default"]
        assert len(found) == count
        assert {each["partition"] for each in found} == {partition}
    (german,) = rows(spark, checkpoint, keys=("country=DE", "window.start=2026-11-21 08:00:00"))[
        "default"
    ]
    assert german["key"]["country"] == "DE"
    assert rows(spark, checkpoint, keys=("country",))["default"] == []  # none is NULL
    (limited,) = ask(spark, checkpoint, limit=2)
    assert isinstance(limited, StateRows)
    assert (len(limited.rows), limited.has_more) == (2, True)
    with pytest.raises(NotDone, match="has no column town"):
        ask(spark, checkpoint, keys=("town=X",))
    with pytest.raises(NotDone, match=r"noon is not .*window\.start, "):
        ask(spark, checkpoint, keys=("window.start=noon",))


@pytest.mark.parametrize("end", [".parquet", ".arrow"])
def test_rows_go_to_a_file(spark: SparkSession, tmp_path: Path, end: str) -> None:
    target = tmp_path / f"rows{end}"
    (told,) = ask(spark, unpack("hdfs-backed", tmp_path), to=str(target))
    assert isinstance(told, StateRows)
    assert (told.written, told.rows) == (3, ())
    table = pq.read_table(target) if end == ".parquet" else pa.ipc.open_file(target).read_all()
    assert table.column_names == ["partition", "country", "count"]
    found = {each["country"]: each["count"] for each in table.to_pylist()}
    assert found == {"CN": 6, "DE": 6, "IS": 6}
    assert [each.name for each in tmp_path.iterdir() if "rows" in each.name] == [target.name]


def test_columns_that_spark_calls_alike_are_told_apart(
    spark: SparkSession, use: Use, tmp_path: Path
) -> None:
    use(conf())
    made = Program(spark, tmp_path / "program", "aggregate")
    made.put(4)
    frame = (
        clicks(spark, made.home / "in")
        .groupBy("k")
        .agg(F.sum("v"), F.sum(F.col("v") * 10), F.max(F.col("v").cast("decimal(38,18)")))
    )
    checkpoint = tmp_path / "checkpoint"
    writer = frame.writeStream.outputMode("update").option("checkpointLocation", str(checkpoint))
    writer.format("noop").trigger(availableNow=True).start().awaitTermination()
    found = pairs(rows(spark, checkpoint)["default"])
    assert found == [
        ({"k": n}, {"sum": n, "sum_2": 10 * n, "max": f"{n}.000000000000000000"}) for n in range(4)
    ]


GROUPS = "spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion"


def totals(below: int) -> list[tuple[int, int, int]]:
    """Return the keys of rows k = n % 5, with how many there are and their sum."""
    keys = (range(k, below, 5) for k in range(5))
    return [(k, len(some), sum(some)) for k, some in enumerate(keys)]


def test_groups_of_a_users_function_are_shown_with_their_timeouts(
    spark: SparkSession, use: Use, tmp_path: Path
) -> None:
    use({**conf(), **READING, GROUPS: "2"})
    checkpoint = grouped(spark, tmp_path / "program", "EventTimeTimeout")
    first, *_, last = opened(checkpoint).list_finished()
    found = pairs(rows(spark, checkpoint)["default"])
    assert found == [
        (
            {"k": k},
            {
                "groupState": {"n": n, "total": total},
                "times out at": at(1000 + k) if k else None,
            },
        )
        for k, n, total in totals(23)
    ]
    told = changes(spark, checkpoint, before=first, batch=last)
    assert (told.added, told.removed, told.changed) == (0, 0, 5)
    before = {row["key"]["k"]: row["before"] for row in map(json.loads, told.shown.rows)}
    assert {k: each["groupState"] for k, each in before.items()} == {
        k: {"n": n, "total": total} for k, n, total in totals(10)
    }
    target = tmp_path / "rows.parquet"
    ask(spark, checkpoint, to=str(target))
    written = sorted(pq.read_table(target).to_pylist(), key=lambda row: row["k"])
    assert [row["groupState"]["total"] for row in written] == [total for *_, total in totals(23)]
    assert [row["times out at"] for row in written] == [
        None,
        *(START + timedelta(minutes=1000 + k) for k in range(1, 5)),
    ]


def test_groups_in_format_1_are_shown_or_refused_in_words(
    spark: SparkSession, use: Use, tmp_path: Path
) -> None:
    use({PROVIDER: HDFS_BACKED, GROUPS: "1", PARTITIONS: "2"})
    checkpoint = grouped(spark, tmp_path / "program", "NoTimeout")
    found = pairs(rows(spark, checkpoint)["default"])
    assert found == [({"k": k}, {"n": n, "total": total}) for k, n, total in totals(23)]
    with pytest.raises(StreamingQueryException, match="timeoutTimestamp"):
        grouped(spark, tmp_path / "timeouts", "EventTimeTimeout")
    with pytest.raises(CheckpointUnfit, match="timeouts in format 1") as caught:
        ask(spark, tmp_path / "timeouts" / "checkpoint")
    assert caught.value.fields["why"] == "not_read"


# ---- differences


def changes(spark: SparkSession, checkpoint: Path, **asked: Any) -> StateChanges:
    (found,) = ask(spark, checkpoint, **asked)
    assert isinstance(found, StateChanges)
    return found


def test_batches_are_compared_row_by_row(spark: SparkSession, use: Use, tmp_path: Path) -> None:
    use(conf())
    made = Program(spark, tmp_path / "program", "window")
    home, checkpoint = made.home, tmp_path / "program" / "checkpoint"
    made.put(10)
    made.run(checkpoint)
    first = {json.dumps(each["key"]): each["value"] for each in rows(spark, checkpoint)["default"]}
    batch = opened(checkpoint).list_finished()[-1]
    lines = [{"k": 3, "v": 8, "ts": at(4)}, {"k": 77, "v": 1, "ts": at(1000)}]
    (home / "in" / "more.json").write_text("\n".join(map(json.dumps, lines)), "utf-8")
    made.run(checkpoint)
    last = opened(checkpoint).list_finished()[-1]
    second = {json.dumps(each["key"]): each["value"] for each in rows(spark, checkpoint)["default"]}
    middle = {
        json.dumps(each["key"]): each["value"]
        for each in rows(spark, checkpoint, batch=batch + 1)["default"]
    }

    for after, state in ((batch + 1, middle), (last, second)):
        found = changes(spark, checkpoint, before=batch, batch=after)
        told = [json.loads(each) for each in found.shown.rows]
        expected = {
            "added": {key: state[key] for key in state.keys() - first.keys()},
            "removed": {key: first[key] for key in first.keys() - state.keys()},
            "changed": {
                key: state[key] for key in state.keys() & first.keys() if state[key] != first[key]
            },
        }
        shown: dict[str, dict[str, Any]] = {kind: {} for kind in expected}
        for each in told:
            key = json.dumps(each["key"])
            shown[each["change"]][key] = each["value"]
            assert each["before"] == (first[key] if each["change"] == "changed" else None)
        assert shown == expected
        assert (found.added, found.removed, found.changed) == tuple(map(len, expected.values()))
    assert first.keys() - second.keys(), "the watermark removed nothing"
    assert [key for key in first if key in middle and first[key] != middle[key]]


def test_batches_of_a_join_are_compared_as_bags(spark: SparkSession, tmp_path: Path) -> None:
    checkpoint = unpack("join-2", tmp_path)
    found = changes(spark, checkpoint, before=2, batch=4, store="left", limit=2)
    then, now = (
        Counter(json.dumps(each) for each in rows(spark, checkpoint, batch=batch)["left"])
        for batch in (2, 4)
    )
    assert (found.added, found.removed) == ((now - then).total(), (then - now).total())
    assert found.added
    assert (len(found.shown.rows), found.shown.has_more) == (2, True)


# ---- damage


def flip(path: Path) -> None:
    """Change a byte in the middle."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(bytes(data))


DAMAGE = {  # which files of a checkpoint, at which batch
    "hdfs-backed": ("state/0/0/3.snapshot", 2),
    "rocksdb": ("state/0/0/SSTs/*.sst", 11),
    "rocksdb-changelog": ("state/0/0/11.changelog", 10),
}


@pytest.mark.parametrize(
    ("case", "is_cut", "has_sums"),
    but(
        pytest.mark.long,
        [(case, is_cut, sums) for case in DAMAGE for is_cut in (True, False) for sums in (0, 1)],
        lambda case, is_cut, has_sums: is_cut == (case == "rocksdb") and has_sums != is_cut,
    ),
)
def test_damage_is_told_with_the_file(
    spark: SparkSession, tmp_path: Path, case: str, *, is_cut: bool, has_sums: int
) -> None:
    checkpoint = unpack(case, tmp_path)
    pattern, batch = DAMAGE[case]
    damaged = list(checkpoint.glob(pattern))
    assert damaged
    for path in damaged:
        if not has_sums:
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        if is_cut:
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        else:
            flip(path)
    with pytest.raises(CheckpointUnfit) as caught:
        ask(spark, checkpoint, batch=batch)
    assert any(str(path) in caught.value.message for path in damaged), caught.value.message
    assert "scratch" not in caught.value.message
