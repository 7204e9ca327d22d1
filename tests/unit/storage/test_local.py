"""What is peculiar to the local storage."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from ashore.errors import InvariantBroken, PathExists, StorageError, SyncFailed
from ashore.storage import LocalStorage, is_temporary
from ashore.storage.base import Staged
from ashore.storage.system import PosixSystem


class BrokenSystem(PosixSystem):
    """Fails with one error number wherever the disk would be touched."""

    def __init__(self, number: int, kinds: set[str]) -> None:
        self._number = number
        self._kinds = kinds

    def _fail_if(self, kind: str, path: str = "") -> None:
        if kind in self._kinds:
            raise OSError(self._number, os.strerror(self._number), path)

    def write(self, descriptor: int, data: memoryview) -> int:
        self._fail_if("write")
        return super().write(descriptor, data)

    def sync_file(self, descriptor: int) -> None:
        self._fail_if("sync_file")
        super().sync_file(descriptor)

    def sync_directory(self, path: str) -> None:
        self._fail_if("sync_directory", path)
        super().sync_directory(path)

    def rename_noreplace(self, source: str, target: str) -> None:
        self._fail_if("rename", source)
        super().rename_noreplace(source, target)

    def link(self, source: str, target: str) -> None:
        self._fail_if("link", source)
        super().link(source, target)


class RacingSystem(PosixSystem):
    """Another process does the same a moment earlier, each time; there are only links."""

    def rename_noreplace(self, source: str, target: str) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), source, None, target)

    def make_directory(self, path: str) -> None:
        super().make_directory(path)
        super().make_directory(path)

    def unlink(self, path: str) -> None:
        super().unlink(path)
        super().unlink(path)


class SyncRecorder(PosixSystem):
    """Remembers which directories were synced."""

    def __init__(self) -> None:
        self.synced: list[str] = []

    def sync_directory(self, path: str) -> None:
        self.synced.append(path)
        super().sync_directory(path)


class FailingClose(PosixSystem):
    """Gives the descriptor back and fails, as Linux does."""

    def __init__(self) -> None:
        self.closed: list[int] = []

    def close(self, descriptor: int) -> None:
        self.closed.append(descriptor)
        super().close(descriptor)
        raise OSError(errno.EIO, os.strerror(errno.EIO))


class StingySystem(PosixSystem):
    """Takes three bytes at a time, as a system may."""

    def write(self, descriptor: int, data: memoryview) -> int:
        return super().write(descriptor, data[:3])


def test_a_full_disk_is_reported_with_a_hint_and_leaves_nothing(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path), BrokenSystem(errno.ENOSPC, {"write"}))
    with pytest.raises(StorageError, match="No space left on device") as caught:
        storage.create("log/1", b"x")
    assert "free space" in caught.value.hint
    assert caught.value.fields == {"path": "log/1"}
    assert list((tmp_path / "log").iterdir()) == []


def test_a_writer_that_missed_a_write_cannot_be_closed(tmp_path: Path) -> None:
    system = BrokenSystem(errno.ENOSPC, set())
    writer = LocalStorage(str(tmp_path), system).open_write("x")
    writer.write(b"one")
    system._kinds.add("write")
    with pytest.raises(StorageError, match="No space"):
        writer.write(b"two")
    system._kinds.clear()
    with pytest.raises(StorageError, match="a write failed"):
        writer.write(b"three")
    with pytest.raises(StorageError, match="a write failed"):
        writer.close()
    assert writer.closed
    assert (tmp_path / "x").read_bytes() == b"one"


def test_a_failed_sync_of_a_file_is_not_repeated(tmp_path: Path) -> None:
    system = BrokenSystem(errno.EIO, {"sync_file"})
    writer = LocalStorage(str(tmp_path), system).open_write("x")
    with pytest.raises(SyncFailed):
        writer.close()
    system._kinds.clear()
    with pytest.raises(StorageError, match="it was abandoned"):
        writer.close()


@pytest.mark.parametrize("kinds", [{"sync_file"}, {"sync_directory"}])
def test_create_tells_a_failed_sync(tmp_path: Path, kinds: set[str]) -> None:
    with pytest.raises(SyncFailed):
        LocalStorage(str(tmp_path), BrokenSystem(errno.EIO, kinds)).create("x", b"")
    assert not [name for name in os.listdir(tmp_path) if is_temporary(name)]  # noqa: PTH208


def test_a_file_system_without_any_safe_move_is_refused(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path), BrokenSystem(errno.EOPNOTSUPP, {"rename", "link"}))
    storage.open_write("a").close()
    with pytest.raises(StorageError) as caught:
        storage.publish(Staged("a"), "b")
    assert "rename" in caught.value.hint
    assert (tmp_path / "a").exists()
    assert not (tmp_path / "b").exists()


def test_short_writes_are_finished(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path), StingySystem())
    storage.create("a", b"0123456789")
    writer = storage.open_write("b")
    assert writer.write(b"0123456789") == 10
    writer.close()
    assert storage.read("a") == storage.read("b") == b"0123456789"


def test_a_halfway_move_is_finished(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    storage.create("a", b"content")
    os.link(tmp_path / "a", tmp_path / "b")
    storage.publish(Staged("a"), "b")
    assert not (tmp_path / "a").exists()
    assert (tmp_path / "b").read_bytes() == b"content"


def test_two_files_with_links_of_their_own_are_not_halfway(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    for name in ("a", "b"):
        storage.create(name, b"same")
        os.link(tmp_path / name, tmp_path / f"backup-{name}")
    with pytest.raises(PathExists):
        storage.publish(Staged("a"), "b")
    assert (tmp_path / "a").exists()


def test_another_process_may_be_faster_at_every_step(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path), RacingSystem())
    storage.open_write("staging/deep/x").close()
    storage.publish(Staged("staging/deep/x"), "t/date=1/hour=1/y")
    assert storage.stat("staging/deep/x") is None
    assert storage.stat("t/date=1/hour=1/y") is not None


def test_a_descriptor_is_given_back_once_even_if_that_fails(tmp_path: Path) -> None:
    system = FailingClose()
    writer = LocalStorage(str(tmp_path), system).open_write("x")
    with pytest.raises(StorageError, match="Input/output error"):
        writer.close()
    writer.abandon()
    assert len(system.closed) == 1


def test_a_directory_made_again_is_made_durable_again(tmp_path: Path) -> None:
    system = SyncRecorder()
    storage = LocalStorage(str(tmp_path), system)
    storage.create("log/1", b"")
    shutil.rmtree(tmp_path / "log")
    system.synced.clear()
    storage.create("log/2", b"")
    assert system.synced == [f"{tmp_path}/log", str(tmp_path)]


def test_what_is_durable_is_not_synced_again(tmp_path: Path) -> None:
    system = SyncRecorder()
    storage = LocalStorage(str(tmp_path), system)
    for batch in (1, 2):
        storage.open_write(f"table/staging/{batch}/file").close()
        system.synced.clear()
        storage.sync([f"table/staging/{batch}"])
    assert system.synced == [f"{tmp_path}/table/staging/2", f"{tmp_path}/table/staging"]
    system.synced.clear()
    storage.sync(["table/staging/2", "table"])
    assert system.synced == [f"{tmp_path}/table", f"{tmp_path}/table/staging/2"]


def test_one_name_seen_through_a_symbolic_link_is_not_halfway(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    storage.create("real/a", b"content")
    (tmp_path / "alias").symlink_to(tmp_path / "real")
    with pytest.raises(PathExists):
        storage.publish(Staged("real/a"), "alias/a")
    assert (tmp_path / "real/a").read_bytes() == b"content"


def test_a_root_that_is_missing_is_made(tmp_path: Path) -> None:
    LocalStorage(str(tmp_path / "new" / "lake") + "/").create("a/b", b"x")
    assert (tmp_path / "new" / "lake" / "a" / "b").read_bytes() == b"x"


def test_a_root_is_absolute() -> None:
    with pytest.raises(InvariantBroken):
        LocalStorage("data/lake")


def test_files_and_directories_obey_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        LocalStorage(str(tmp_path)).create("d/a", b"")
    finally:
        os.umask(old)
    assert (tmp_path / "d").stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "d" / "a").stat().st_mode & 0o777 == 0o640


def test_names_that_are_not_text_are_listed(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/d/\xff")).touch()
    (found,) = LocalStorage(str(tmp_path)).list("d")
    LocalStorage(str(tmp_path)).delete(found.path)
    assert list((tmp_path / "d").iterdir()) == []


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    storage.create("a/b", b"x")
    with pytest.raises(PathExists):
        storage.create("a/b", b"x")
    storage.read("a/b")
    with pytest.raises(StorageError):
        storage.read("a")
    storage.open_write("c").close()
    storage.open_write("d").abandon()
    storage.sync(["a"])
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
