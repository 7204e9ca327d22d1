"""What Spark's progress tells of a batch."""

from types import SimpleNamespace

from ashore.jobs.events import QueryProgress
from ashore.spark.sql.progress import Reported, report


def operator(rows: int, dropped: int) -> dict[str, object]:
    files = {"rocksdbSstFileSize": 1_000}
    times = {"commitTimeMs": 20, "numRowsDroppedByWatermark": dropped}
    return {"numRowsTotal": rows, "memoryUsedBytes": 50, "customMetrics": files, **times}


def test_each_batch_is_told_of_once_and_the_last_is_kept() -> None:
    first = {
        "batchId": 4,
        "eventTime": {"watermark": "2026-11-18T12:00:00.250Z"},
        "observedMetrics": {"late:clicks": (9, 1), "undecodable:clicks": (2,), "late:other": None},
        "stateOperators": [operator(10, 3), operator(5, 1)],
    }
    second = {"batchId": 5, "stateOperators": [operator(2, 1)], "eventTime": {}}
    query, reported = SimpleNamespace(recentProgress=[first]), Reported()
    told = list(report(query, reported))
    assert [each.partition(":")[0] for each in told] == ["batch 4"] * 3
    assert "9 records of clicks are behind the watermark" in told[0]
    assert "2 records of clicks cannot be decoded" in told[1]
    assert "4 rows came later" in told[2]
    assert reported.last == QueryProgress(4, 1_795_003_200_250, 15, 2_100, 40, 4)
    query.recentProgress.append(second)
    assert len(list(report(query, reported))) == 1
    assert reported.last == QueryProgress(5, None, 2, 1_050, 20, 5)
    assert list(report(query, reported)) == []
