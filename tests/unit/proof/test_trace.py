"""What happened to one file."""

from dataclasses import replace

import pytest
from tests.unit.proof.lakes import TABLE, Lake, fill, make_lake

from ashore.errors import RequestInvalid
from ashore.log.entries import Commit, Retire, RetiredPartition
from ashore.log.files import TableCommit
from ashore.proof.trace import FileHistory, trace_in_lake


def _trace(lake: Lake, path: str, start: int = 0) -> FileHistory:
    job = lake.opened().job.job
    return trace_in_lake(lake.storage, "file:///data/lake", job, path, start)


def test_a_file_from_its_entry_to_its_end():
    lake = make_lake()
    fill(lake.source, "clicks", 1, 10)
    entry = lake.land({lake.key(1): (40, 50)})
    lake.append(Commit("idle"))
    path = lake.final(entry)
    partition = "/".join(path.split("/")[2:-1])
    lake.append(Retire((RetiredPartition(TABLE, partition),), "ann", "it is old"))
    found = _trace(lake, path)
    assert [(each.entry, each.kind) for each in found.steps] == [
        (entry.number, "prepared"),
        (entry.number + 1, "moved"),
        (entry.number + 2, "retired"),
    ]
    assert found.steps[-1].text.endswith("by ann: it is old")
    assert (found.there, found.table, found.owner) == ("final", TABLE, None)
    assert found.ranges[0].topic == "clicks"
    for named in (f"file:///data/lake/{path}", f"/data/lake/{path}"):
        assert replace(_trace(lake, named), path=path) == found
    assert _trace(lake, path, entry.number) == found
    assert _trace(lake, path, entry.number + 1) == found, "read from the start then"


@pytest.mark.parametrize(
    ("table_format", "text"), [("iceberg", "in snapshot 7"), ("delta", "in a version after 7")]
)
def test_a_file_of_a_table_format_has_its_snapshot(table_format: str, text: str):
    lake = make_lake()
    entry = lake.entries[-1]
    path = lake.final(entry)
    assert "in snapshot" not in _trace(lake, path).steps[0].text
    lake.rewrite(replace(entry.body, commits=(TableCommit(TABLE, "uuid", 0, 0, 7, table_format),)))
    assert _trace(lake, path).steps[0].text.endswith(text)


def test_where_a_file_is_now():
    lake = make_lake()
    fill(lake.source, "clicks", 1, 10)
    entry = lake.land({lake.key(1): (40, 50)}, is_moved=False)
    path = lake.final(entry)
    assert _trace(lake, path).there == "staged"
    lake.storage.delete(lake.files(entry)[0][1])
    assert _trace(lake, path).there == "absent"
    lake.storage.create(path, b"other")
    assert _trace(lake, path).there == "differs"


def test_a_file_that_no_entry_lists_does_not_count():
    path = "ods.db/clicks/a-main-9-9-0000-0000000000000000.parquet"
    found = _trace(make_lake(), path)
    assert (found.steps, found.rows, found.there) == ((), None, "absent")
    assert "it does not count" in found.unknown[0]


@pytest.mark.parametrize("path", ["x", "ods.db/clicks/x.parquet", "/etc/passwd"])
def test_what_is_no_data_file_is_refused(path):
    with pytest.raises(RequestInvalid, match="not a data file"):
        _trace(make_lake(), path)
