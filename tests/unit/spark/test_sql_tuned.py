"""The settings of a query whose state is there."""

import pytest
from tests.unit.config.test_sql import SQL_JOB
from tests.unit.config.texts import changed, job

from ashore.errors import CheckpointUnfit
from ashore.spark.sql.checkpoint import Checkpoint
from ashore.spark.sql.settings import PARTITIONS
from ashore.spark.sql.tuned import query_settings
from ashore.storage import MemoryStorage

OLD = '"INSERT INTO ods.big SELECT * FROM clicks;"'
BEGUN = 'v1\n{"conf":{"spark.sql.shuffle.partitions":"8"}}\n{"clicks":{"0":5}}'


def begun(*, has_state: bool) -> Checkpoint:
    storage = MemoryStorage()
    storage.create("ck/offsets/0", BEGUN.encode())
    if has_state:
        storage.create("ck/state/0/0/1.changelog", b"")
    return Checkpoint(storage, "ck", "memory:ck")


def settings(sql: str, *, has_state: bool) -> str:
    found = query_settings(job(changed(SQL_JOB, (OLD, sql))), 2, begun(has_state=has_state))
    return found[PARTITIONS]


def test_state_keeps_its_partitions() -> None:
    assert settings(OLD, has_state=True) == "8"
    assert settings("{file: a.sql, state_partitions: 8}", has_state=True) == "8"
    # A query without state is cut anew with each start.
    assert settings("{file: a.sql, state_partitions: 4}", has_state=False) == "4"


@pytest.mark.parametrize("given", ["key", "conf"])
def test_another_number_is_refused(given: str) -> None:
    if given == "key":
        sql = "{file: a.sql, state_partitions: 4}"
    else:
        sql = f"{OLD}\nspark: {{conf: {{spark.sql.shuffle.partitions: '4'}}}}"
    with pytest.raises(
        CheckpointUnfit, match="cut into 8 partitions, and the job file says 4"
    ) as e:
        settings(sql, has_state=True)
    assert "state_partitions: 8" in e.value.hint
