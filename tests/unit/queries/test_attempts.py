"""The attempts of a query's checkpoint: who takes which, and what a copy holds."""

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.checkpoint_files import list_paths, opened, unpack

from ashore.errors import CheckpointUnfit, JobProcessEnded, PathMissing, StorageError
from ashore.queries.state.attempts import Attempts
from ashore.queries.state.checkpoint import Checkpoint, copy_checkpoint
from ashore.queries.state.layout import OperatorFile
from ashore.storage import LocalStorage, MemoryStorage, Storage
from ashore_lab.testing import FailBefore, FakeClock, FaultyStorage
from ashore_lab.testing.wrapper import WrappedStorage

DIRECTORY = "_checkpoints/insert"
STORE = "state/0/1"
HOUR_MS = 3_600_000

STORAGES: dict[str, Callable[[Path], Storage]] = {
    "links": lambda path: LocalStorage(str(path / "lake")),
    "copies": lambda _: MemoryStorage(FakeClock()),
}


@pytest.fixture(params=STORAGES)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return STORAGES[request.param](tmp_path)


def attempts_of(storage: Storage) -> Attempts:
    return Attempts(storage, DIRECTORY, f"file:///lake/{DIRECTORY}")


def snapshot(*tables: str) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        names = ", ".join(f'{{"dfsSstFileName": "{each}"}}' for each in tables)
        archive.writestr("metadata", f'v1\n{{"sstFiles": [{names}]}}')
    return written.getvalue()


def write(checkpoint: Checkpoint, path: str, data: bytes = b"") -> None:
    checkpoint.storage.create(f"{checkpoint.path}/{path}", data or path.encode())


def finish(checkpoint: Checkpoint, batch: int) -> None:
    """What Spark writes for a batch, in its order."""
    if batch == 0:
        write(checkpoint, "metadata", b'{"id": "query"}')
        write(checkpoint, f"{STORE}/_metadata/schema")
        write(checkpoint, "sources/0/0")
    write(checkpoint, f"offsets/{batch}")
    write(checkpoint, f"{STORE}/{batch + 1}.changelog")
    write(checkpoint, f"{STORE}/.{batch + 1}.changelog.crc")
    write(checkpoint, f"commits/{batch}")


def begun(storage: Storage, batches: int) -> Attempts:
    """The attempt of a first writer that was not left in order."""
    attempts = attempts_of(storage)
    attempt = attempts.take(1, is_mine=False)
    for batch in range(batches):
        finish(attempt, batch)
    return attempts


def files(checkpoint: Checkpoint) -> set[str]:
    found, waiting = set(), [checkpoint.path]
    while waiting:
        for each in checkpoint.storage.list(waiting.pop()):
            if each.is_directory:
                waiting.append(each.path)
            else:
                found.add(each.path.removeprefix(f"{checkpoint.path}/"))
    return found


def test_a_first_writer_makes_an_attempt_that_its_successor_takes_once_it_was_left(
    storage: Storage,
) -> None:
    attempts = begun(storage, 2)
    attempts.release(1)
    attempts.release(1)
    assert attempts.take(2, is_mine=False) == attempts.attempt(1)
    # Writer 2 is killed: that writer 1 has left says nothing any more.
    assert attempts.take(3, is_mine=False) == attempts.attempt(3)
    assert attempts.newest() == attempts.attempt(3)


def test_a_writer_keeps_its_attempt_over_its_own_errors(storage: Storage) -> None:
    attempts = begun(storage, 1)
    assert attempts.take(2, is_mine=True) == attempts.attempt(1)


def test_a_copy_holds_finished_batches_and_what_the_next_one_plans(storage: Storage) -> None:
    attempts = begun(storage, 3)
    old = attempts.attempt(1)
    write(old, "offsets/3")
    write(old, "offsets/4")  # its owner lives
    write(old, f"{STORE}/4.changelog")
    before = files(old)

    copy = attempts.take(2, is_mine=False)

    found = files(copy)
    assert found == {
        *("metadata", f"{STORE}/_metadata/schema", "sources/0/0"),
        *(f"offsets/{n}" for n in range(4)),
        *(f"commits/{n}" for n in range(3)),
        *(f"{STORE}/{n}.changelog" for n in range(1, 4)),
    } - ({"offsets/0"} if isinstance(storage, MemoryStorage) else set())
    for path in found - {"metadata"}:
        assert storage.read(f"{copy.path}/{path}") == path.encode()
    assert files(old) == before
    position = copy.read_position()
    assert (position.query_id, position.planned, position.committed) == ("query", 3, 2)


def test_what_an_old_writer_still_does_is_not_in_the_copy(storage: Storage) -> None:
    attempts = begun(storage, 2)
    copy = attempts.take(2, is_mine=False)
    before = files(copy)
    finish(attempts.attempt(1), 2)
    path = f"{attempts.attempt(1).path}/{STORE}/2.changelog"
    storage.delete(path)
    storage.create(path, b"other")
    assert files(copy) == before
    assert storage.read(f"{copy.path}/{STORE}/2.changelog") == f"{STORE}/2.changelog".encode()


def test_an_attempt_is_cut_after_a_batch_and_may_be_taken_as_it_is(storage: Storage) -> None:
    attempts = begun(storage, 5)
    write(attempts.attempt(1), "offsets/5")
    before = files(attempts.attempt(1))

    cut = attempts.cut(2, 2)

    position = cut.read_position()
    assert (position.query_id, position.planned, position.committed) == ("query", 2, 2)
    assert cut.list_finished()[-1] == 2
    assert {each for each in files(cut) if each.endswith(".changelog")} == {
        f"{STORE}/{n}.changelog" for n in range(1, 4)
    }
    assert files(attempts.attempt(1)) == before
    assert attempts.take(3, is_mine=False) == cut


def test_state_of_another_format_is_refused(storage: Storage) -> None:
    attempts = begun(storage, 1)
    path = f"{DIRECTORY}/whole-1.json"
    reported = json.loads(storage.read(path))
    assert reported == {"copy_of": None, "state_format": 1, "source": "ashore"}
    storage.delete(path)
    storage.create(path, json.dumps({**reported, "state_format": 2}).encode())
    with pytest.raises(CheckpointUnfit, match="format 2, this release writes 1"):
        attempts.newest()


def test_what_an_earlier_release_reads_with_sparks_own_source_stays_for_it(
    storage: Storage,
) -> None:
    attempts = begun(storage, 2)
    attempts.release(1)
    path = f"{DIRECTORY}/whole-1.json"
    storage.delete(path)
    storage.create(path, b'{"copy_of": null, "state_format": 1}')
    before = files(attempts.attempt(1))

    assert attempts.take(2, is_mine=False) == attempts.attempt(2)

    assert files(attempts.attempt(1)) == before
    attempts.release(2)
    assert attempts.take(3, is_mine=False) == attempts.attempt(2)


def test_a_true_copy_takes_what_a_start_needs() -> None:
    storage = MemoryStorage(FakeClock())
    attempts = begun(storage, 9)
    attempt = attempts.attempt(1)
    for table in ("a-1.sst", "b-2.sst", "c-3.sst", "d-4.sst"):
        write(attempt, f"{STORE}/SSTs/{table}")
    write(attempt, f"{STORE}/2.zip", snapshot("a-1.sst"))
    write(attempt, f"{STORE}/4.zip", snapshot("b-2.sst"))
    write(attempt, f"{STORE}/8.zip", snapshot("b-2.sst", "c-3.sst"))
    write(attempt, f"{STORE}/10.zip", snapshot("d-4.sst"))  # of a batch that is not done

    found = files(attempts.take(2, is_mine=False))

    kept = {path.removeprefix(f"{STORE}/") for path in found if path.startswith(STORE)}
    assert kept == {
        *("_metadata/schema", "4.zip", "8.zip", "SSTs/b-2.sst", "SSTs/c-3.sst"),
        *(f"{version}.changelog" for version in range(4, 10)),
    }
    assert {path for path in found if path.startswith("o")} == {f"offsets/{n}" for n in (6, 7, 8)}


def test_a_snapshot_that_does_not_tell_keeps_all_tables() -> None:
    storage = MemoryStorage(FakeClock())
    attempts = begun(storage, 1)
    write(attempts.attempt(1), f"{STORE}/SSTs/a-1.sst")
    write(attempts.attempt(1), f"{STORE}/1.zip", b"no zip")
    assert f"{STORE}/SSTs/a-1.sst" in files(attempts.take(2, is_mine=False))


class Tidied(WrappedStorage):
    """A storage in which the owner of an attempt deletes an old file while it is copied."""

    def list(self, directory: str) -> list:
        found = super().list(directory)
        if directory.endswith(f"1/{STORE}"):
            self.delete(f"{directory}/1.changelog")
        return found


def test_a_copy_in_part_is_never_taken(storage: Storage) -> None:
    begun(storage, 2)
    with pytest.raises(PathMissing):
        attempts_of(Tidied(storage)).take(2, is_mine=False)
    attempts = attempts_of(storage)
    assert attempts.newest() == attempts.attempt(1)
    assert attempts.take(3, is_mine=False) == attempts.attempt(3)
    assert f"{STORE}/2.changelog" in files(attempts.attempt(3))


def test_an_attempt_that_cannot_be_written_leaves_no_files(storage: Storage) -> None:
    """A full disk would have less room after each try."""
    begun(storage, 2)
    with pytest.raises(StorageError):
        attempts_of(FaultyStorage(storage, [FailBefore(8)])).take(2, is_mine=False)

    attempts = attempts_of(storage)

    def write_part() -> None:
        with attempts.migrate(3) as target:
            write(target, "offsets/0")
            write(target, f"{STORE}/.2.zip.tmp")
            raise JobProcessEnded("no space left on device")

    with pytest.raises(JobProcessEnded):
        write_part()
    assert [files(attempts.attempt(each)) for each in (2, 3)] == [set(), set()]
    assert attempts.newest() == attempts.attempt(1)


def test_attempts_are_deleted_once_they_have_had_a_successor_for_long(storage: Storage) -> None:
    attempts = begun(storage, 2)
    begun_ms = storage.stat(f"{DIRECTORY}/whole-1.json").modified_ms
    write(attempts.attempt(2), "metadata")  # its writer was killed while it copied
    storage.create(f"{DIRECTORY}/begun-2.json", b"{}")
    attempts.release(2)
    newest = attempts.take(3 + 1, is_mine=False)
    kept = files(newest)

    attempts.clean(4, begun_ms, HOUR_MS)
    assert files(attempts.attempt(1))
    attempts.clean(4, begun_ms + 2 * HOUR_MS, HOUR_MS)

    assert files(attempts.attempt(1)) == files(attempts.attempt(2)) == set()
    assert files(newest) == kept
    left = {each.path for each in storage.list(DIRECTORY) if not each.is_directory}
    assert left == {f"{DIRECTORY}/{kind}-4.json" for kind in ("begun", "whole")}


def migrated(storage: Storage, named: int = 0) -> Attempts:
    """Attempt 1 with a batch, left in order, and attempt 2, which a migration has made of it."""
    before = attempts_of(storage)
    finish(before.take(1, is_mine=False), 0)
    before.release(1)
    attempts = Attempts(storage, before.path, before.uri, lambda: named)
    with attempts.migrate(2) as target:
        finish(target, 0)
    return attempts


def test_a_migrated_attempt_counts_once_the_log_names_it(storage: Storage) -> None:
    attempts = migrated(storage)
    assert attempts.newest() == attempts.attempt(1)
    assert attempts.newest_epoch() == 1
    again = Attempts(storage, attempts.path, attempts.uri, lambda: 2)
    assert again.newest() == attempts.attempt(2)


def test_one_that_the_log_does_not_name_releases_nothing(storage: Storage) -> None:
    attempts = migrated(storage)
    assert attempts.take(3, is_mine=False) == attempts.attempt(3), "a copy of the first one"


def test_none_before_the_one_that_the_log_names_counts(storage: Storage) -> None:
    attempts = migrated(storage, named=2)
    assert attempts.before(attempts.attempt(2)) is None
    attempts.release(2)
    assert attempts.take(3, is_mine=False) == attempts.attempt(2)
    storage.delete(f"{DIRECTORY}/migrated-2.json")
    with attempts.migrate(3) as target:
        finish(target, 0)
    assert attempts.newest() is None, "the first has the state of other SQL"


def test_a_migrated_attempt_that_does_not_count_is_cleaned_and_cleans_nothing() -> None:
    clock = FakeClock()
    storage = MemoryStorage(clock)
    attempts = migrated(storage)
    clock.advance(HOUR_MS / 1000 * 2)
    attempts.clean(2, clock.now_ms(), HOUR_MS)
    assert attempts.newest() == attempts.attempt(1), "nothing has followed it"
    attempts.take(3, is_mine=False)
    clock.advance(HOUR_MS / 1000 * 2)
    attempts.clean(3, clock.now_ms(), HOUR_MS)
    left = {each.path.rpartition("/")[2] for each in storage.list(DIRECTORY)}
    assert {each for each in left if each.endswith(".json")} == {"begun-3.json", "whole-3.json"}


def test_a_named_one_is_cleaned_once_another_follows() -> None:
    clock = FakeClock()
    storage = MemoryStorage(clock)
    attempts = migrated(storage, named=2)
    clock.advance(HOUR_MS / 1000 * 2)
    attempts.clean(2, clock.now_ms(), HOUR_MS)
    assert attempts.newest() == attempts.attempt(2)
    assert attempts.take(4, is_mine=False) == attempts.attempt(4)
    clock.advance(HOUR_MS / 1000 * 2)
    attempts.clean(4, clock.now_ms(), HOUR_MS)
    assert attempts.newest() == attempts.attempt(4)
    assert storage.stat(f"{DIRECTORY}/migrated-2.json") is None


def test_a_copy_of_a_join_names_its_own_schemas(tmp_path: Path) -> None:
    """Else a job with a join could not be rescaled once it was rolled back or taken over."""
    root, target = unpack("join-3", tmp_path / "live"), tmp_path / "live" / "copy"
    before = {each: (root / each).read_bytes() for each in list_paths(root)}

    copy_checkpoint(opened(root), opened(target))

    says = [
        OperatorFile.parse(each.read_bytes(), str(each))
        for each in target.glob("state/0/_metadata/v2/[0-9]*")
    ]
    assert says
    assert all(each.stores for each in says)
    assert [each.find_elsewhere(target.as_uri()) for each in says] == [[]] * len(says)
    assert {each: (root / each).read_bytes() for each in list_paths(root)} == before
