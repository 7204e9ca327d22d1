"""What an attempt leaves in the storage where it fails."""

import pytest
from tests.unit.topics.orders import a_batch, all_files, an_order, click, spec

from ashore.errors import StorageError, TooManyFiles
from ashore.storage.memory import MemoryStorage
from ashore.topics.write import write_task as task
from ashore.topics.write.data_files import PoolLimits
from ashore.topics.write.write_task import write_task
from ashore_lab.testing import FailBefore, FaultyStorage


def test_a_storage_that_takes_no_deletes_either_is_asked_once():
    """Each call to a lake that is away may take as long as its deadline."""
    faults = [FailBefore(12, "write"), *(FailBefore(each, "delete") for each in range(1, 20))]
    storage = FaultyStorage(MemoryStorage(), faults)
    order = an_order({"clicks": spec(partition_by=("country",), roll_bytes=1)})
    batches = [a_batch([click(10 * i + j, country=f"c{j}") for j in range(4)]) for i in range(3)]
    with pytest.raises(StorageError, match="injected"):
        write_task(order, storage, 0, batches, limits=PoolLimits(2, 2))
    assert [call.kind for call in storage.calls].count("delete") == 1


def test_a_task_stops_where_it_alone_has_more_files_than_an_entry_lists(monkeypatch):
    monkeypatch.setattr(task, "FILES_MAX", 5)
    storage = FaultyStorage(MemoryStorage())
    order = an_order({"clicks": spec(partition_by=("country",))})
    batches = [
        a_batch([click(n, country=f"c{n}") for n in range(4 * i, 4 * i + 4)]) for i in range(9)
    ]
    with pytest.raises(TooManyFiles) as found:
        write_task(order, storage, 0, iter(batches))
    assert found.value.fields == {"records": 8}
    assert all_files(storage, "ods.db") == []
