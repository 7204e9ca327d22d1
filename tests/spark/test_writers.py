"""Two writers of one slice, two jobs at one table, and a log that somebody has touched."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.spark.site import Around, At, Site, Writer, events, table_of

from ashore.errors import Fenced, LogDamaged, TableOwned
from ashore.log.entries import Open
from ashore.topics.loop.worker import Tick

# --- a second writer -----------------------------------------------------------------------------


def test_a_writer_that_was_overtaken_while_it_wrote_prepares_nothing(site: Site) -> None:
    topic = site.topic(2)
    site.produce(topic, events(0, 20), partition=0)
    site.produce(topic, events(100, 20), partition=1)
    job_file = site.job_file(table_of(topic))
    second = site.writer(job_file)
    first = site.writer(job_file, wrap=lambda runner: Around(runner, after=second.drain))

    with pytest.raises(Fenced):
        first.drain()

    assert site.landed_ids() == site.committed_ids(topic)
    assert len(site.staged()) == 1  # what the first one wrote: the janitor's
    site.prove(job_file)


def test_a_writer_that_was_overtaken_before_it_moved_only_repeats_moves(site: Site) -> None:
    topic = site.topic()
    site.produce(topic, events(0, 20))
    job_file = site.job_file(table_of(topic))
    second = site.writer(job_file)
    first = site.writer(job_file, At("move", second.drain))
    first.loop.open()

    assert first.loop.tick() is Tick.LANDED  # the second one has moved the file already
    site.produce(topic, events(20, 5))
    with pytest.raises(Fenced):
        first.loop.tick()
    with pytest.raises(Fenced):
        first.loop.tick()  # for good
    second.drain()

    assert site.landed_ids() == site.committed_ids(topic)
    site.prove(job_file)


def test_an_idle_writer_learns_that_it_was_overtaken(site: Site) -> None:
    topic = site.topic()
    job_file = site.job_file(table_of(topic))
    first, second = site.writer(job_file), site.writer(job_file)
    first.loop.open()
    assert first.ticks() == [Tick.IDLE]
    second.loop.open()

    with pytest.raises(Fenced) as caught:
        first.loop.tick()

    assert caught.value.exit_code == 3
    assert "do not restart" in caught.value.hint


def test_a_table_of_another_job_is_refused(site: Site) -> None:
    topic = site.topic()
    site.produce(topic, events(0, 3))
    site.writer(site.job_file(table_of(topic), job="owner")).drain()
    thief = site.writer(site.job_file(table_of(topic), job="thief"))

    with pytest.raises(TableOwned) as caught:
        thief.drain()

    assert "job owner" in caught.value.message
    assert not site.log_directory("thief").exists()
    assert len(site.files()) == 1


# --- the log -------------------------------------------------------------------------------------


def write_snapshot(writer: Writer) -> None:
    writer.log.open()
    writer.log.write_snapshot(remember_ms=0)


def test_a_deleted_snapshot_is_done_without(site: Site) -> None:
    topic = site.topic()
    job_file = site.job_file(table_of(topic))
    for start in (0, 10):
        site.produce(topic, events(start, 10))
        site.writer(job_file).drain()
    write_snapshot(site.writer(job_file))
    with_snapshot = site.fold()
    [snapshot] = site.log_directory().glob("_snapshot-*.json")
    snapshot.unlink()

    assert with_snapshot.base == with_snapshot.end
    assert (site.fold().base, site.fold().shards) == (-1, with_snapshot.shards)
    site.produce(topic, events(20, 10))
    site.writer(job_file).drain()
    assert site.landed_ids() == site.committed_ids(topic)
    site.prove(job_file)


def prepare_in(log: Path) -> Path:
    """Return the only `prepare` of a log; one entry follows."""
    [path] = [each for each in log.glob("0*.json") if b'"kind":"prepare"' in each.read_bytes()]
    return path


def cut(log: Path) -> Path:
    path = prepare_in(log)
    path.write_bytes(path.read_bytes()[:-30])
    return path


def empty(log: Path) -> Path:
    path = prepare_in(log)
    path.write_bytes(b"")
    return path


def empty_at_the_end(log: Path) -> Path:
    path = log / f"{len(list(log.glob('0*.json'))):020d}.json"
    path.write_bytes(b"")
    return path


def missing(log: Path) -> Path:
    path = prepare_in(log)
    path.unlink()
    return path


def foreign(log: Path) -> Path:
    path = log / "part-00000.parquet"
    path.write_bytes(b"PAR1")
    return path


def of_another_number(log: Path) -> Path:
    path = prepare_in(log)
    shutil.copy(log / f"{int(path.stem) - 1:020d}.json", path)
    return path


def changed(log: Path) -> Path:
    path = prepare_in(log)
    path.write_bytes(path.read_bytes().replace(b'"batch":', b'"Batch":'))
    return path


def snapshot_cut(log: Path) -> Path:
    [path] = log.glob("_snapshot-*.json")
    path.write_bytes(path.read_bytes()[:100])
    return path


def test_damage_is_named_and_nothing_is_landed(site: Site, tmp_path: Path) -> None:
    """One landing, copied for each kind of damage; no Spark job starts for any of them."""
    topic = site.topic()
    site.produce(topic, events(0, 10))
    job_file = site.job_file(table_of(topic))
    site.writer(job_file).drain()
    site.produce(topic, events(10, 10))
    whole = tmp_path / "whole"
    shutil.copytree(site.lake, whole)
    snapshotted = tmp_path / "snapshotted"
    write_snapshot(site.writer(job_file))
    shutil.copytree(site.lake, snapshotted)
    kinds: list[tuple[Callable[[Path], Path], Path]] = [
        *((kind, whole) for kind in (cut, empty, empty_at_the_end, missing, foreign)),
        *((kind, whole) for kind in (of_another_number, changed)),
        (snapshot_cut, snapshotted),
    ]
    for damage, copy in kinds:
        shutil.rmtree(site.lake)
        shutil.copytree(copy, site.lake)
        path = damage(site.log_directory())
        before = sorted(site.lake.rglob("*"))
        writer = site.writer(job_file, wrap=Around)

        with pytest.raises(LogDamaged) as caught:
            writer.drain()

        assert path.name in caught.value.message, damage.__name__
        assert caught.value.hint, damage.__name__
        assert caught.value.exit_code == 4
        assert sorted(site.lake.rglob("*")) == before, damage.__name__
        assert writer.parts.runner.runs == 0


def test_each_start_is_an_epoch(site: Site) -> None:
    topic = site.topic()
    job_file = site.job_file(table_of(topic))
    for start in range(3):
        site.produce(topic, events(start, 1))
        site.writer(job_file).drain()

    assert [entry.epoch for entry in site.history() if isinstance(entry.body, Open)] == [1, 2, 3]
    assert [path.name.split("-")[2] for path in site.files()] == ["1", "2", "3"]
