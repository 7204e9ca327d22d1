"""The generation of a topic in the rows and the dead letters that a task writes."""

from dataclasses import replace

import pytest
from tests.unit.topics.orders import a_batch, a_record, an_order, click, read_back, spec

from ashore.log.files import Role
from ashore.storage.memory import MemoryStorage
from ashore.topics.write.write_task import write_task


@pytest.mark.parametrize("provenance", [True, False])
@pytest.mark.parametrize("extension", ["parquet", "orc", "jsonl"])
def test_rows_and_dead_letters_have_the_generation_of_their_range(extension, provenance):
    table = spec(format=extension, generation=True, provenance=provenance)
    order = an_order({"clicks": table})
    first, second = order.ranges
    again = replace(first, key=replace(first.key, generation=7))
    order = replace(order, ranges=(again, second))
    records = [click(1), a_record(2, b"no"), click(3), click(4, partition=1)]
    storage = MemoryStorage()
    batch = a_batch([*records, a_record(5, b"no", partition=1)])
    files = read_back(storage, order, write_task(order, storage, 7, [batch]))
    main = [row for each in files if each.target.role is Role.MAIN for row in each.rows]
    dead = [row for each in files if each.target.role is Role.DEAD for row in each.rows]
    assert [(row["offset"], row["generation"]) for row in dead] == [(2, 7), (5, 1)]
    found = {row["id"]: row.get("kafka_generation", "no column") for row in main}
    assert found == ({1: 7, 3: 7, 4: 1} if provenance else dict.fromkeys((1, 3, 4), "no column"))
    columns = {each.target.role: each.target.schema for each in files}
    assert columns[Role.MAIN].endswith(", kafka_generation INT") is provenance
    assert columns[Role.DEAD].endswith(", reason STRING, generation INT")
