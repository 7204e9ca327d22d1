"""What an attempt leaves in the storage where it fails."""

import pytest
from tests.unit.writer.orders import a_batch, an_order, click, spec

from ashore.errors import StorageError
from ashore.landing.writer import write_task
from ashore.landing.writer.pool import PoolLimits
from ashore.storage.memory import MemoryStorage
from ashore.testing import FailBefore, FaultyStorage


def test_a_storage_that_takes_no_deletes_either_is_asked_once():
    """Each call to a lake that is away may take as long as its deadline."""
    faults = [FailBefore(12, "write"), *(FailBefore(each, "delete") for each in range(1, 20))]
    storage = FaultyStorage(MemoryStorage(), faults)
    order = an_order({"clicks": spec(partition_by=("country",), roll_bytes=1)})
    batches = [a_batch([click(10 * i + j, country=f"c{j}") for j in range(4)]) for i in range(3)]
    with pytest.raises(StorageError, match="injected"):
        write_task(order, storage, 0, batches, limits=PoolLimits(2, 2))
    assert [call.kind for call in storage.calls].count("delete") == 1
