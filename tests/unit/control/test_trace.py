"""What happened to one file."""

import pytest
from tests.unit.control.lakes import TABLE, fill, make_lake

from ashore.control.trace import trace_in_job
from ashore.errors import RequestInvalid
from ashore.protocol.entries import Commit, Retire, RetiredPartition


def test_a_file_from_its_entry_to_its_end():
    lake = make_lake()
    fill(lake.source, "clicks", 1, 10)
    entry = lake.land({lake.key(1): (40, 50)})
    lake.append(Commit("idle"))
    path = lake.final(entry)
    partition = "/".join(path.split("/")[2:-1])
    lake.append(Retire((RetiredPartition(TABLE, partition),), "ann", "it is old"))
    found = trace_in_job(lake.opened(), path)
    assert [(each.entry, each.kind) for each in found.steps] == [
        (entry.number, "prepare"),
        (entry.number + 1, "commit"),
        (entry.number + 2, "retire"),
    ]
    assert found.steps[-1].text == "its partition is dropped by ann: it is old"
    assert (found.now, found.table, found.owner) == ("in its table", TABLE, None)
    assert found.offsets[0][0] == "clicks/1"
    assert trace_in_job(lake.opened(), f"file:///data/lake/{path}") == found
    assert trace_in_job(lake.opened(), path, entry.number) == found


def test_where_a_file_is_now():
    lake = make_lake()
    fill(lake.source, "clicks", 1, 10)
    entry = lake.land({lake.key(1): (40, 50)}, is_moved=False)
    path = lake.final(entry)
    assert trace_in_job(lake.opened(), path).now.startswith("staged")
    lake.storage.delete(lake.files(entry)[0][1])
    assert trace_in_job(lake.opened(), path).now == "neither in its table nor staged"
    lake.storage.create(path, b"other")
    assert "another file has its name" in trace_in_job(lake.opened(), path).now


@pytest.mark.parametrize("path", ["x", "ods.db/clicks/a-main-9-9-0000-0000000000000000.parquet"])
def test_a_file_that_no_entry_lists_is_said(path):
    with pytest.raises(RequestInvalid):
        trace_in_job(make_lake().opened(), path)
