"""Settings that the state of a query rests on."""

import pytest

from ashore.errors import JobFileInvalid
from ashore.spark.sql.settings import FORMAT, PARTITIONS, state_settings

PROVIDER = "spark.sql.streaming.stateStore.providerClass"


def test_state_is_in_rocksdb_unless_the_job_file_says_otherwise() -> None:
    settings = state_settings(8, {})
    assert settings[PROVIDER].endswith("RocksDBStateStoreProvider")
    assert (settings[PARTITIONS], settings[FORMAT]) == ("8", "1")
    own = state_settings(8, {PROVIDER: "mine", "spark.other": "x"})
    assert own == {**settings, PROVIDER: "mine"}


def test_the_format_of_checkpoints_is_not_to_be_chosen() -> None:
    assert state_settings(8, {FORMAT: "1"})[FORMAT] == "1"
    with pytest.raises(JobFileInvalid, match="checkpointFormatVersion"):
        state_settings(8, {FORMAT: "2"})
