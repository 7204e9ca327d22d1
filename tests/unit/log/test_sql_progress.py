"""What Spark's progress tells of a batch."""

import json
from types import SimpleNamespace

import pytest

from ashore.log.progress import QueryProgress
from ashore.queries.spark.sql.watch import Inputs, Reported, report


def operator(rows: int, dropped: int) -> dict[str, object]:
    files = {"rocksdbSstFileSize": 1_000}
    times = {"commitTimeMs": 20, "numRowsDroppedByWatermark": dropped}
    return {"numRowsTotal": rows, "memoryUsedBytes": 50, "customMetrics": files, **times}


def test_each_batch_is_reported_of_once_and_the_last_is_kept() -> None:
    first = {
        "batchId": 4,
        "timestamp": "2026-11-18T12:00:00.000Z",
        "eventTime": {"watermark": "2026-11-18T12:00:00.250Z"},
        "observedMetrics": {
            "times:clicks": (9, 0, None),
            "undecodable:clicks": (2,),
            "times:b": None,
        },
        "stateOperators": [operator(10, 3), operator(5, 1)],
    }
    second = {
        "batchId": 5,
        "timestamp": "2026-11-18T12:00:01.000Z",
        "stateOperators": [operator(2, 1)],
        "eventTime": {},
    }
    query, reported = SimpleNamespace(recentProgress=[first]), Reported()
    told = list(report(query, reported))
    assert [each.partition(":")[0] for each in told] == ["batch 4"] * 3
    assert "9 records of clicks " in told[0]
    assert "behind the watermark" in told[0]
    assert "2 records of clicks cannot" in told[1]
    assert "4 rows were later" in told[2]
    assert reported.last == QueryProgress(4, 1_795_003_200_250, 15, 2_100, 40, 4, read=0)
    query.recentProgress.append(second)
    assert len(list(report(query, reported))) == 1
    assert reported.last == QueryProgress(5, None, 2, 1_050, 20, 5, read=0)
    assert list(report(query, reported)) == []


def test_a_silent_input_that_holds_the_watermark_back_is_named() -> None:
    inputs = Inputs({"clicks": 10, "orders": 0})
    inputs.take({"times:clicks": (0, 0, 1_000)}, at_ms=5)
    assert inputs.held_by() == ("orders", 5)  # it never brought one
    inputs.take({"times:clicks": (0, 0, 2_000), "times:orders": (0, 0, 500)}, at_ms=6)
    assert inputs.held_by() == (None, None)  # it is slower, and not silent
    inputs.take({"times:clicks": None, "times:orders": (0, 0, None)}, at_ms=6)
    assert inputs.held_by() == (None, None)  # a batch for the state alone
    inputs.take({"times:clicks": (0, 0, 3_000), "times:orders": (0, 0, None)}, at_ms=7)
    assert inputs.held_by() == ("orders", 6)
    inputs.take({"times:clicks": (0, 0, 900), "times:orders": (0, 0, 400)}, at_ms=8)
    inputs.take({"times:orders": (0, 0, 2_990)}, at_ms=9)
    assert inputs.held_by() == (None, None)  # both are at 2,990: the highest counts
    inputs.take({"times:orders": (0, 0, 4_000)}, at_ms=10)
    assert inputs.held_by() == ("clicks", 8)
    alone = Inputs({"clicks": 0})
    alone.take({}, at_ms=1)
    assert alone.held_by() == (None, None)


def of_kafka(end: dict[str, int], latest: dict[str, int]) -> dict[str, object]:
    return {
        "endOffset": json.dumps({"clicks": end}),
        "latestOffset": json.dumps({"clicks": latest}),
    }


@pytest.mark.parametrize(
    ("sources", "lag"),
    [
        ([of_kafka({"0": 5, "1": 7}, {"0": 8, "1": 7}), of_kafka({"0": 1}, {"0": 2})], 4),
        ([of_kafka({"0": 5}, {"0": 4})], 0),  # Spark asked for the end before others wrote
        ([], None),
        ([of_kafka({"0": 5}, {"0": 5}), {"endOffset": None, "latestOffset": None}], None),
        ([of_kafka({"0": 5}, {"0": 5, "1": 9})], None),  # nobody says where the new one begins
    ],
)
def test_what_a_batch_leaves_behind_is_counted_or_unknown(
    sources: list[dict[str, object]], lag: int | None
) -> None:
    progress = {
        "batchId": 1,
        "timestamp": "2026-11-18T12:00:00.000Z",
        "stateOperators": [],
        "sources": sources,
    }
    reported = Reported()
    list(report(SimpleNamespace(recentProgress=[progress]), reported))
    assert reported.last is not None
    assert reported.last.lag == lag
