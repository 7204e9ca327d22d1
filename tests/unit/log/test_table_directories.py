"""A table whose directory is gone is not begun again beside the rows that the log counts."""

from dataclasses import replace

import pytest
from tests.unit.proof.lakes import DATE, JOB, TABLE, Lake, fill, make_lake

from ashore.errors import Stopped
from ashore.jobs.file import parse_job
from ashore.log.entries import Commit
from ashore.log.names import table_path
from ashore.log.store.owner import TableDirectories, claim_tables, require_directories
from ashore.log.store.reader import read_log
from ashore.proof.retire import apply_retire, plan_retire
from ashore.storage import MemoryStorage
from ashore.topics.use.preflight import check_job

GONE = {"tables": [TABLE], "paths": ["ods.db/clicks"]}


def delete_tree(storage: MemoryStorage, path: str) -> None:
    for each in storage.list(path):
        if each.is_directory:
            delete_tree(storage, each.path)
        else:
            storage.delete(each.path)
    storage.delete(path)


@pytest.mark.parametrize("has_more", [False, True])
def test_a_table_whose_directory_is_gone_stops_the_job(has_more: bool) -> None:
    lake = make_lake()
    lake.append(Commit("stop"))
    check_job(lake.opened())
    delete_tree(lake.storage, table_path(TABLE))
    if has_more:
        fill(lake.source, "clicks", 0, 5)
    for _ in range(2):
        with pytest.raises(Stopped, match="counts rows there") as no:
            check_job(lake.opened())
        assert (no.value.exit_code, no.value.fields) == (4, GONE)
        assert "create it empty" in no.value.hint
        assert lake.storage.stat(table_path(TABLE)) is None
    lake.storage.create(f"{table_path(TABLE)}/_empty", b"")  # somebody has decided
    check_job(lake.opened())
    assert lake.verify().exit_code == 5  # which the rows that are gone are reported by


def test_an_unclosed_entry_is_left_to_its_recovery() -> None:
    lake = Lake()
    lake.source.create("clicks")
    fill(lake.source, "clicks", 0, 5)
    lake.open()
    lake.join(0)
    lake.land({lake.key(0): (0, 5)}, is_moved=False)
    require_directories(MemoryStorage(), read_log(lake.storage, lake.name), [TABLE])


def test_a_table_that_the_job_no_longer_fills_needs_no_directory() -> None:
    lake = make_lake()
    lake.append(Commit("stop"))
    lake.job = parse_job(JOB.replace("table: ods.clicks", "table: ods.visits"))
    delete_tree(lake.storage, table_path(TABLE))
    check_job(lake.opened())


def test_rows_that_were_retired_need_no_directory() -> None:
    lake, nowhere = make_lake(), MemoryStorage()
    lake.append(Commit("stop"))
    partitions = [f"{DATE}/hour=00", f"{DATE}/hour=01"]
    for left in (partitions, partitions[1:]):
        with pytest.raises(Stopped):
            require_directories(nowhere, read_log(lake.storage, lake.name), [TABLE])
        plan = plan_retire(lake.opened(), TABLE, left[:1])
        apply_retire(lake.opened(), plan, "too old", takes_over=False)
    require_directories(nowhere, read_log(lake.storage, lake.name), [TABLE])


def test_rows_that_were_given_up_need_no_directory() -> None:
    lake = make_lake()
    lake.append(Commit("stop"))
    fold = read_log(lake.storage, lake.name)
    given_up = {key: replace(each, rows=0) for key, each in fold.partitions.items()}
    require_directories(MemoryStorage(), replace(fold, partitions=given_up), [TABLE])


def test_late_and_dead_letter_tables_may_be_deleted() -> None:
    lake = make_lake()
    lake.append(Commit("stop"))
    assert lake.storage.stat(table_path(f"{TABLE}__dead")) is not None
    delete_tree(lake.storage, table_path(f"{TABLE}__dead"))
    check_job(lake.opened())


def test_a_directory_that_tasks_have_created_again_is_none():
    lake = make_lake()
    lake.append(Commit("stop"))
    delete_tree(lake.storage, table_path(TABLE))
    lake.storage.create(f"{table_path(TABLE)}/.ashore/clicks/main/1/staged", b"")
    with pytest.raises(Stopped, match="counts rows there") as stopped:
        check_job(lake.opened())
    assert stopped.value.fields == GONE


def test_a_directory_that_goes_while_a_job_runs_stops_it():
    storage = MemoryStorage()
    directories = TableDirectories(storage)
    directories.require([TABLE])  # it is not claimed: nothing says that it was there
    claim_tables(storage, [TABLE], "clicks", 1)
    directories.require([TABLE])
    delete_tree(storage, table_path(TABLE))
    storage.create(f"{table_path(TABLE)}/.ashore/clicks/main/1/staged", b"")
    with pytest.raises(Stopped, match="job was started") as stopped:
        directories.require([TABLE])
    assert (stopped.value.exit_code, stopped.value.fields) == (4, GONE)
