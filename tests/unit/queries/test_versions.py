"""Copies of versions in a checkpoint: whose it is."""

from dataclasses import replace

import pytest
from tests.unit.plans.test_version_changes import graph_of
from tests.unit.queries.test_state_tables import version_of

from ashore.errors import CheckpointUnfit
from ashore.log.entries import next_version, read_entry
from ashore.log.names import SliceName, entry_path
from ashore.log.store.log import LandingLog, LogContext
from ashore.log.store.reader import read_log
from ashore.plans.version import write_version
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.layout import UnknownPath, VersionPath, parse_path
from ashore.queries.state.versions import (
    KeptVersion,
    copy_version,
    read_checkpoint_owner,
    read_kept,
    require_own,
)
from ashore.storage import MemoryStorage
from ashore_lab.testing import FakeClock

NAME = SliceName("clicks", "ods__big")
DOCUMENT = '{"job":"clicks","slice":"ods__big"}'


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage()


@pytest.fixture
def log(storage: MemoryStorage) -> LandingLog:
    log = LandingLog(LogContext(storage, FakeClock(), lambda: "0" * 16), NAME)
    log.open()
    log.append(next_version(log.fold, "d", DOCUMENT), None)
    return log


def test_a_copy_has_the_bytes_of_its_entry_and_is_made_once(
    storage: MemoryStorage, log: LandingLog
) -> None:
    checkpoint = Checkpoint(storage, "somewhere/3", "memory:somewhere/3")
    assert read_checkpoint_owner(checkpoint) is None
    copy_version(storage, NAME, replace(log.fold, version=None), checkpoint)
    assert checkpoint.list_versions() == []
    for _ in range(2):
        copy_version(storage, NAME, log.fold, checkpoint)
    assert checkpoint.list_versions() == [1]
    entry = read_log(storage, NAME).version
    assert entry is not None
    assert checkpoint.read_version(1) == storage.read(entry_path(NAME, entry.entry))
    assert read_checkpoint_owner(checkpoint) == NAME
    log.append(next_version(log.fold, "e", DOCUMENT), None)
    copy_version(storage, NAME, log.fold, checkpoint)
    assert checkpoint.list_versions() == [1, 2]
    assert read_entry(checkpoint.read_version(2)).body.version == 2


def test_a_checkpoint_of_another_job_or_query_is_refused(
    storage: MemoryStorage, log: LandingLog
) -> None:
    checkpoint = Checkpoint(storage, "somewhere/3", "memory:somewhere/3")
    require_own(SliceName("other", "x"), checkpoint)  # an older release has written it
    copy_version(storage, NAME, log.fold, checkpoint)
    require_own(NAME, checkpoint)
    for other in (SliceName("other", NAME.slice), SliceName(NAME.job, "ods__other")):
        with pytest.raises(CheckpointUnfit, match="is that of clicks") as refused:
            require_own(other, checkpoint)
        assert refused.value.fields["why"] == "other_job"


@pytest.mark.parametrize("damage", [b"", b"{}", b"not json"])
def test_a_damaged_copy_is_named(storage: MemoryStorage, damage: bytes) -> None:
    checkpoint = Checkpoint(storage, "somewhere/3", "memory:somewhere/3")
    checkpoint.keep_version(7, damage)
    with pytest.raises(CheckpointUnfit, match=r"version 7 of .* damaged"):
        read_checkpoint_owner(checkpoint)


def test_the_newest_copy_is_read_and_one_of_another_release_is_only_named(
    storage: MemoryStorage, log: LandingLog
) -> None:
    checkpoint = Checkpoint(storage, "somewhere/3", "memory:somewhere/3")
    assert read_kept(checkpoint) is None
    copy_version(storage, NAME, log.fold, checkpoint)
    assert read_kept(checkpoint) == KeptVersion(1, NAME, None)  # not what this release writes
    version = replace(version_of(graph_of("q11")), job=NAME.job, slice=NAME.slice)
    log.append(next_version(log.fold, "e", write_version(version)), None)
    copy_version(storage, NAME, log.fold, checkpoint)
    assert read_kept(checkpoint) == KeptVersion(2, NAME, version)


def test_only_a_version_has_such_a_name() -> None:
    assert parse_path("ashore-version-12.json") == VersionPath(12)
    assert VersionPath(12).path == "ashore-version-12.json"
    for name in ("ashore-version-0.json", "ashore-version-.json", "x/ashore-version-1.json"):
        assert parse_path(name) == UnknownPath(name)
