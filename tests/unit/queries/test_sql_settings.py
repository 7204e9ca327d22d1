"""Settings that the state of a query rests on."""

import pytest

from ashore.errors import JobFileInvalid
from ashore.queries.spark.sql.settings import (
    BY_FILE_SYSTEM,
    FORMAT,
    JOIN_FORMAT,
    KEPT_BATCHES,
    MAINTENANCE_THREADS,
    SNAPSHOT_BATCHES,
    Tuning,
    state_settings,
)
from ashore.queries.state.layout import PARTITIONS, PROVIDER

TUNING = Tuning(partitions=8, snapshot_batches=12, kept_batches=180, maintenance_threads=3)


def test_state_is_in_rocksdb_unless_the_job_file_says_otherwise() -> None:
    settings = state_settings(TUNING, {})
    assert settings[PROVIDER].endswith("RocksDBStateStoreProvider")
    assert (settings[PARTITIONS], settings[FORMAT]) == ("8", "1")
    own = state_settings(TUNING, {PROVIDER: "mine", "spark.other": "x", SNAPSHOT_BATCHES: "99"})
    assert own == {
        **{name: value for name, value in settings.items() if name != JOIN_FORMAT},
        PROVIDER: "mine",
        SNAPSHOT_BATCHES: "99",
    }


def test_what_was_tuned_is_set() -> None:
    settings = state_settings(TUNING, {})
    assert settings[SNAPSHOT_BATCHES] == "12"
    assert settings[KEPT_BATCHES] == "180"
    assert settings[MAINTENANCE_THREADS] == "3"


def test_only_a_local_disk_has_its_files_renamed_without_a_process() -> None:
    assert not BY_FILE_SYSTEM.keys() & state_settings(TUNING, {}).keys()
    settings = state_settings(TUNING, {}, is_hdfs=False)
    assert settings.items() >= BY_FILE_SYSTEM.items()
    own = dict.fromkeys(BY_FILE_SYSTEM, "mine")
    assert state_settings(TUNING, own, is_hdfs=False).items() >= own.items()


def test_the_format_of_checkpoints_is_not_to_be_chosen() -> None:
    assert state_settings(TUNING, {FORMAT: "1"})[FORMAT] == "1"
    with pytest.raises(JobFileInvalid, match="checkpointFormatVersion"):
        state_settings(TUNING, {FORMAT: "2"})
