"""What happened to one file."""

from dataclasses import replace

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
        (entry.number, "prepared"),
        (entry.number + 1, "moved"),
        (entry.number + 2, "retired"),
    ]
    assert found.steps[-1].text == "the partition was dropped by ann: it is old"
    assert (found.there, found.table, found.owner) == ("final", TABLE, None)
    assert found.ranges[0].topic == "clicks"
    for named in (f"file:///data/lake/{path}", f"/data/lake/{path}"):
        assert replace(trace_in_job(lake.opened(), named), path=path) == found
    assert trace_in_job(lake.opened(), path, entry.number) == found
    assert trace_in_job(lake.opened(), path, entry.number + 1) == found, "read from the start then"


def test_where_a_file_is_now():
    lake = make_lake()
    fill(lake.source, "clicks", 1, 10)
    entry = lake.land({lake.key(1): (40, 50)}, is_moved=False)
    path = lake.final(entry)
    assert trace_in_job(lake.opened(), path).there == "staged"
    lake.storage.delete(lake.files(entry)[0][1])
    assert trace_in_job(lake.opened(), path).there == "absent"
    lake.storage.create(path, b"other")
    assert trace_in_job(lake.opened(), path).there == "differs"


def test_a_file_that_no_entry_lists_does_not_count():
    path = "ods.db/clicks/a-main-9-9-0000-0000000000000000.parquet"
    found = trace_in_job(make_lake().opened(), path)
    assert (found.steps, found.rows, found.there) == ((), None, "absent")
    assert "it does not count" in found.unknown[0]


@pytest.mark.parametrize("path", ["x", "ods.db/clicks/x.parquet", "/etc/passwd"])
def test_what_is_no_data_file_is_refused(path):
    with pytest.raises(RequestInvalid, match="is not a data file of a table"):
        trace_in_job(make_lake().opened(), path)
