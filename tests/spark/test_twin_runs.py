"""Twin runs of Nexmark over one backlog: their tables do not depend on batches, nor on kills."""

import json
import random
import signal
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.spark.site import LOCAL, Site
from tests.spark.sql_jobs import checkpoint, run
from tests.spark.test_nexmark import JOB, QUERIES, closing, generate, queries
from tests.spark.test_processes import ended, is_step, wait_for

from ashore.log.names import SliceName
from ashore.log.store.reader import read_log
from ashore_lab.drills.sites.ahead import Ahead

EVENTS, STEP_MS = 60_000, 50  # fifty minutes of the auction house
SHARES = (12, 4, 2, 1)  # of the partitions of a topic: batches would be ahead in the short ones
SMALL = 2_000  # records of a batch
KILLS, KILL_WITHIN_S = 3, 6.0
WINDOW_MS, HOP_MS = 10_000, 2_000
TABLES = {
    "q5": ("auction", "num"),
    "q7": ("auction", "price", "bidder", "unix_millis(date_time)", "extra"),
    "q8": ("id", "name", "unix_millis(start_time)"),
}

Tables = dict[str, Counter[tuple[Any, ...]]]


class Record(NamedTuple):
    """An event of the auction house."""

    topic: str
    time_ms: int
    values: Mapping[str, Any]


def records(count: int) -> list[Record]:
    return [
        Record(each.topic, _millis(each.record["date_time"]), each.record)
        for each in generate(count, step_ms=STEP_MS)
    ]


def _millis(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def fill(site: Site, backlog: Sequence[Record]) -> dict[str, str]:
    """Produce a backlog, and what ends all windows, to topics; return their names."""
    dice = random.Random(3)
    topics = {name: site.topic(len(SHARES), name) for name in ("person", "auction", "bid")}
    parts: dict[tuple[str, int], list[bytes]] = {}
    for each in backlog:
        (partition,) = dice.choices(range(len(SHARES)), SHARES)
        value = json.dumps(each.values).encode()
        parts.setdefault((each.topic, partition), []).append(value)
    for name, value in closing():
        parts[name, 0].append(value)
    for (name, partition), values in parts.items():
        site.produce(topics[name], values, partition)
    return topics


def twin(site: Site, topics: Mapping[str, str], name: str, limit: int) -> Path:
    """Write a job with the queries, into a database of the job's name."""
    read = [{**item, "topic": topics[item["topic"]]} for item in JOB["tables"] if "topic" in item]
    inserts = [
        f"INSERT INTO {name}.{each.name} {each.select};"
        for each in QUERIES
        if each.name in TABLES and each.file == queries.TABLES
    ]
    return site.job_file(
        *(*read, *({"table": f"{name}.{each}"} for each in TABLES)),
        job=name,
        sql={"text": "\n".join(inserts), "state_partitions": 2},
        batch={"interval": "100ms", "max_records": limit},
        spark=LOCAL,
    )


def compute(backlog: Sequence[Record]) -> Tables:
    """Return what the queries make of all records, by other means than SQL."""
    counts = Counter[tuple[int, int]]()  # of a window and an auction
    highest = Counter[int]()  # of a window
    for each in backlog:
        if each.topic == "bid":
            newest = each.time_ms // HOP_MS * HOP_MS
            for start_ms in range(newest, newest - WINDOW_MS, -HOP_MS):
                counts[start_ms, each.values["auction"]] += 1
            window = each.time_ms // WINDOW_MS
            highest[window] = max(highest[window], each.values["price"])
    most = Counter[int]()
    for (start_ms, _), num in counts.items():
        most[start_ms] = max(most[start_ms], num)
    sellers = {
        (each.time_ms // WINDOW_MS, each.values["seller"])
        for each in backlog
        if each.topic == "auction"
    }
    return {
        "q5": Counter((item, num) for (at, item), num in counts.items() if num == most[at]),
        "q7": Counter(
            (bid["auction"], bid["price"], bid["bidder"], time_ms, bid["extra"])
            for topic, time_ms, bid in backlog
            if topic == "bid" and bid["price"] == highest[time_ms // WINDOW_MS]
        ),
        "q8": Counter(
            (person["id"], person["name"], time_ms // WINDOW_MS * WINDOW_MS)
            for topic, time_ms, person in backlog
            if topic == "person" and (time_ms // WINDOW_MS, person["id"]) in sellers
        ),
    }


def read_tables(site: Site, name: str) -> Tables:
    return {
        table: Counter(
            tuple(row) for row in site.read(f"{name}.{table}").selectExpr(*columns).collect()
        )
        for table, columns in TABLES.items()
    }


def differences(found: Tables, expected: Tables) -> dict[str, tuple[int, int, int]]:
    """Return how many rows are wrong, missing and expected, for the tables that differ."""
    return {
        table: ((found[table] - rows).total(), (rows - found[table]).total(), rows.total())
        for table, rows in expected.items()
        if found[table] != rows
    }


def count_late(site: Site, name: str) -> dict[str, int]:
    """Return how many records were late for each query that had such, by its log."""
    counters = {
        table: read_log(site.storage, SliceName(name, f"{name}__{table}")).counters
        for table in TABLES
    }
    return {table: found["late"] for table, found in counters.items() if found.get("late")}


def prove(site: Site, job_file: Path, expected: Tables) -> None:
    """Compare the tables of a job with what they have to be; no record was late."""
    found = read_tables(site, job_file.stem)
    assert differences(found, expected) == {}
    assert count_late(site, job_file.stem) == {}
    site.prove(job_file)


# Every day q5 over fewer records, in test_nexmark.py.
@pytest.mark.long
@pytest.mark.timeout(900)
def test_tables_do_not_depend_on_the_limit_of_a_batch(site: Site) -> None:
    backlog = records(EVENTS)
    topics = fill(site, backlog)
    expected = compute(backlog)
    assert all(rows.total() > 100 for rows in expected.values())
    for name, limit in (("small", SMALL), ("large", 2_000_000)):
        job_file = twin(site, topics, name, limit)
        run(site, job_file)
        prove(site, job_file, expected)


def count_unfinished(site: Site, name: str) -> int:
    """Return how many queries have planned a batch that they have not committed."""

    def newest(path: Path) -> int:
        return max((int(each.name) for each in path.glob("[0-9]*")), default=-1)

    paths = [checkpoint(site, f"{name}__{table}", name) for table in TABLES]
    return sum(newest(path / "offsets") > newest(path / "commits") for path in paths)


# Every day a job is killed at each step without SQL, in test_processes.py; and a planner of
# batches is started again, in tests/property/test_in_step.py.
@pytest.mark.long
@pytest.mark.timeout(1_200)  # five starts of Spark
@pytest.mark.parametrize("seed", [7])
def test_tables_do_not_depend_on_kills(site: Site, ahead: Ahead, seed: int) -> None:
    """The first kill falls between the plan of a batch and its commit, the others at random."""
    backlog = records(EVENTS // 3)
    job_file = twin(site, fill(site, backlog), "killed", SMALL)
    dice = random.Random(seed)
    waits_s = [0.0, *(dice.uniform(0, KILL_WITHIN_S) for _ in range(KILLS))]
    ahead.expect(len(waits_s))
    for wait_s in waits_s:
        launch = ahead.take(job_file)
        ahead.start_next(job_file)
        wait_for(launch, is_step("write"))
        time.sleep(wait_s)
        launch.kill()
        assert launch.wait() == -signal.SIGKILL
        assert wait_s or count_unfinished(site, job_file.stem)
    launch = ahead.take(job_file)
    assert ended(launch)[0] == 0, launch.log_path.read_text()[-3000:]
    prove(site, job_file, compute(backlog))
