"""The comparison of checkpoints: what can be told without running it."""

import csv
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from bench.checkpoints import __main__ as command
from bench.checkpoints.fresh import write_job_file
from bench.checkpoints.modes import MODES, PRIME, Case, Order, key_of, overrides, settings_of
from bench.checkpoints.report import render_gains, render_page
from bench.checkpoints.results import Cut, Fresh, Results, Shortest, Steady, When
from bench.checkpoints.run import bisect, fill, find_replay, start, take, take_batches
from bench.checkpoints.samples import Sample, Sampler, Spread, save_csv, spread_of
from bench.machine import Machine
from bench.processes import Child, ChildFailed

from ashore.queries.spark.sql.settings import CHANGELOG, KEPT_BATCHES, SNAPSHOT_BATCHES
from ashore.queries.state.layout import PARTITIONS
from ashore.topics.loop.job import load_job_file

MACHINE = Machine("x", 2, 8, "6", {"Python": "3.11", "Spark": "4.2.0", "Java": "21"})
WHEN = When("2026-11-21 08:00 UTC", "abc", 0.2)
CASE = Case("ashore", 1_000_000, "uniform", 5.0)


def steady(case: Case, peak: float) -> Steady:
    spread = Spread(peak / 2, peak / 4, peak)
    return Steady(
        case=case,
        when=WHEN,
        batches=36,
        cpu_s=spread,
        disk_bytes=spread,
        datanode_bytes=spread,
        trigger_ms=spread,
        commit_ms=spread,
        files_per_min=200.0,
        deleted_per_min=10.0,
        bytes_per_min=1e8,
        stored_files=1_000,
        stored_bytes=10**9,
        caught_up_s=(12.0, 11.0),
        first_batch_ms=(3000.0, 2000.0),
        replay_files=160,
        replay_bytes=8_000_000,
    )


# ---- what is compared


def test_modes_differ_in_what_they_are_named_for() -> None:
    found = {mode: settings_of(replace(CASE, mode=mode)) for mode in MODES}
    assert {each[PARTITIONS] for each in found.values()} == {"16"}
    assert [found[mode][CHANGELOG] for mode in MODES] == ["false", "true", "true"]
    changed = {
        name for name in found["snapshot"] if found["snapshot"][name] != found["changelog"][name]
    }
    assert changed == {CHANGELOG}
    assert found["changelog"][SNAPSHOT_BATCHES] == "10"
    assert found["changelog"][KEPT_BATCHES] == "100"
    assert found["ashore"][KEPT_BATCHES] == "360"
    assert overrides("ashore") == {}


def test_uniform_keys_meet_each_one_once_in_a_round() -> None:
    assert key_of(CASE) == f"pmod(value * {PRIME}, 1000000)"
    for keys in (1_000, 100_000):
        assert len({value * PRIME % keys for value in range(keys)}) == keys


def test_of_skewed_keys_a_fifth_gets_four_fifths() -> None:
    text = key_of(replace(CASE, updates="skewed"))
    power = float(text.partition(" / 4294967296D, ")[2].partition(")")[0])
    keys = [int(1_000 * (value * PRIME % 2**32 / 2**32) ** power) for value in range(100_000)]
    assert 0.79 < sum(key < 200 for key in keys) / len(keys) < 0.81
    assert max(keys) < 1_000


def test_an_order_is_read_as_it_was_written() -> None:
    order = Order(CASE, "hdfs://h:1/c", {"fs.defaultFS": "hdfs://h:1"}, "d")
    assert Order.of_text(order.to_text()) == order


@pytest.mark.parametrize("shortest", [1.0, 2.0, 5.0, 10.0, 30.0, None])
def test_bisection_finds_the_first_that_is_stable(shortest: float | None) -> None:
    tried: list[float] = []

    def is_stable(interval_s: float) -> bool:
        tried.append(interval_s)
        return shortest is not None and interval_s >= shortest

    assert bisect((1.0, 2.0, 5.0, 10.0, 30.0), is_stable) == shortest
    assert len(tried) == len(set(tried)) <= 3


def test_the_job_of_freshness_is_one_that_can_be_run(tmp_path: Path) -> None:
    case = replace(CASE, mode="snapshot")
    job = load_job_file(write_job_file(case, "127.0.0.1:1", "hdfs://h:1/c", tmp_path))
    assert job.sql is not None
    assert (job.batch.interval_ms, job.sql.state_partitions) == (5000, 16)
    assert job.spark.conf[CHANGELOG] == "false"


# ---- a job process, as the parent sees it

JOB = """
import sys
from bench.processes import receive, send
send("ready")
total = 0
while True:
    match receive().split():
        case ["fill"]:
            send("started", settings={})
            for total in (40, 80, 120):
                send("batch", total=total, trigger_ms=1)
        case ["run", "7.0"]:
            send("failed", why="no disk")
        case ["run", seconds]:
            send("batch", total=total, trigger_ms=999)  # of the query before
            send("started", settings={"interval": seconds})
            for number in range(50):
                send("batch", total=total, trigger_ms=number)
"""


@pytest.fixture
def child(tmp_path: Path):
    (tmp_path / "pretended.py").write_text(JOB, "utf-8")
    path = os.pathsep.join([str(tmp_path), str(Path(command.__file__).parents[2])])
    prefix = ["env", f"PYTHONPATH={path}"]
    with Child([*prefix, sys.executable, "-m", "pretended"], tmp_path / "log", 30) as started:
        yield started


def test_batches_of_the_query_before_do_not_count(child: Child) -> None:
    fill(child, replace(CASE, keys=100))
    assert start(child, CASE) == {"interval": str(CASE.interval_s)}
    assert [each["trigger_ms"] for each in take(child, 0)] == [0]
    assert next(take_batches(child))["trigger_ms"] == 1


def test_a_query_that_fails_is_reported_of(child: Child) -> None:
    fill(child, replace(CASE, keys=100))
    with pytest.raises(ChildFailed, match="no disk"):
        start(child, replace(CASE, interval_s=7.0))


def test_what_a_job_used_is_seen_from_outside(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("bench.checkpoints.samples.EVERY_S", 0.05)
    busy = f"""
import os, time
print('{{"event": "ready"}}', flush=True)
file = open({str(tmp_path / "written")!r}, "wb")
while True:
    file.write(bytes(1 << 20)); file.flush(); file.seek(0); file.truncate()
"""
    (tmp_path / "busy.py").write_text(busy, "utf-8")
    command_line = ["env", f"PYTHONPATH={tmp_path}", sys.executable, "-m", "busy"]
    with Child(command_line, tmp_path / "log", 30) as process:
        process.expect("ready")
        with Sampler(process.session, process.session) as sampler:
            deadline_s = time.monotonic() + 20
            while len(sampler.samples) < 4 and time.monotonic() < deadline_s:
                time.sleep(0.01)
        process.kill()
    assert sum(each.cpu_s for each in sampler.samples) > 0
    assert sum(each.datanode_bytes for each in sampler.samples) >= 1 << 20
    save_csv(sampler.samples, tmp_path / "samples.csv")
    with (tmp_path / "samples.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(sampler.samples)
    assert float(rows[0]["cpu_s"]) == pytest.approx(sampler.samples[0].cpu_s, rel=1e-4)


def test_the_peak_is_not_the_one_second_that_is_unlike_all_others() -> None:
    found = spread_of([1.0] * 199 + [100.0])
    assert (found.median, found.peak) == (1.0, 1.0)
    assert spread_of([]) == Spread(0, 0, 0)
    assert spread_of([Sample(1, 2, 3, 4).cpu_s]) == Spread(2, 2, 2)


def test_a_start_reads_the_changelogs_after_the_newest_snapshot() -> None:
    store = "state/0/1"
    found = [(f"{store}/{version}.changelog", version) for version in range(1, 12)]
    found += [(f"{store}/4.zip", 900), (f"{store}/9.zip", 900), (f"{store}/SSTs/9-u.sst", 900)]
    found += [("state/0/2/10.changelog", 70), ("offsets/10", 5), (f"{store}/.12.changelog", 7)]
    assert find_replay(found) == [10, 11, 70]
    assert find_replay([]) == []


# ---- results


def everything() -> Results:
    results = Results(MACHINE)
    snapshot = replace(CASE, mode="snapshot")
    for record in (
        steady(snapshot, 100.0),
        steady(CASE, 60.0),
        Shortest(CASE, WHEN, {"1": False, "2": True}),
        Cut(CASE, WHEN, 20, Spread(1, 1000, 1), Spread(1, 2, 3), 10**9),
        Cut(replace(CASE, partitions=64), WHEN, 9, Spread(1, 1480, 1), Spread(1, 2, 3), 10**9),
        Fresh(CASE, WHEN, 1000, 3.21, 6.54),
    ):
        results = results.adding(record)
    return results


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    assert Results.load(path, MACHINE) == Results(MACHINE)
    everything().save(path)
    assert Results.load(path, MACHINE) == everything()
    with pytest.raises(ValueError, match="another machine"):
        Results.load(path, replace(MACHINE, cpu="y"))
    path.write_text('{"format_version": 0}', "utf-8")
    with pytest.raises(ValueError, match="another version"):
        Results.read(path)


def test_what_is_measured_again_takes_the_place_of_what_was() -> None:
    again = everything().adding(steady(CASE, 50.0))
    assert [each.cpu_s.peak for each in again.steady] == [100.0, 50.0]
    longer = replace(CASE, interval_s=10.0)
    moved = again.adding(Shortest(longer, WHEN, {"5": False, "10": True}))
    assert [each.case for each in moved.shortest] == [longer]
    assert len(moved.cuts) == 2


def test_gains_stand_beside_the_published_ones_also_where_they_are_losses() -> None:
    assert "| published | -40 % | -29 % | -61 % |" in render_gains(everything())
    assert "| 1,000,000 keys, uniform, 5 s | -40 % | -40 % | -40 % | -40 % |" in render_gains(
        everything()
    )
    worse = everything().adding(steady(CASE, 150.0))
    assert "| +50 % | +50 % |" in render_gains(worse)


def test_the_page_has_every_part_and_says_what_was_not_measured() -> None:
    page = render_page(everything())
    for cell in (
        "3.21",
        "1 s no, 2 s yes",
        "| 64 | 9 | 1,480 / 1 | 2 | 1,000 | 10.0 |",
        "12 11",
        "160 / 8.0",
    ):
        assert cell in page
    empty = render_page(Results(MACHINE))
    for part in command.PARTS:
        assert f"--part {part}`" in empty
