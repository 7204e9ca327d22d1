"""The classes of a JVM, as those who make them keep them, and launches use them."""

import os
import time
from pathlib import Path

import pytest

from ashore.jobs import class_archive
from ashore.jobs.class_archive import ABANDONED_S, UNUSED_S, NewArchive, find_options


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    stem = tmp_path / "classes" / "0123456789abcdef"
    monkeypatch.setattr(class_archive, "archive_stem", lambda: stem)
    return stem.with_name("0123456789abcdef-7.jsa")


def write(options: str) -> Path:
    """Do what the JVM does at its end."""
    (written,) = [each for each in options.split() if "ArchiveClassesAtExit" in each]
    path = Path(written.partition("=")[2])
    path.write_bytes(b"classes")
    return path


def takes_all(_path: Path) -> bool:
    return True


def test_what_a_jvm_has_written_is_used_by_the_next(kept: Path) -> None:
    assert find_options() == ""
    with NewArchive() as new, NewArchive() as other:
        assert write(new.options) != write(other.options), "two may do so at one moment"
        assert find_options() == "", "one that is not whole is not used"
        assert new.keep(takes_all) == kept
        assert other.keep(takes_all) == kept
    assert list(kept.parent.iterdir()) == [kept]
    assert f"-XX:SharedArchiveFile={kept}" in find_options().split()


def test_nothing_stays_of_a_jvm_that_failed(kept: Path) -> None:
    with NewArchive() as failed:
        write(failed.options)
    with NewArchive() as silent:
        assert silent.keep(takes_all) is None
    assert list(kept.parent.iterdir()) == []


def test_a_part_of_an_archive_is_neither_kept_nor_used(kept: Path) -> None:
    with NewArchive() as cut:
        write(cut.options)
        assert cut.keep(lambda _path: False) is None
    assert list(kept.parent.iterdir()) == []
    with NewArchive() as new:
        write(new.options)
        new.keep(takes_all)
    assert find_options()
    kept.write_bytes(b"cla")  # a disk has lost the rest
    assert find_options() == ""


def test_where_nothing_can_be_written_no_jvm_is_started(kept: Path) -> None:
    kept.parent.touch()
    with pytest.raises(FileExistsError):
        NewArchive()


def test_what_nobody_uses_any_more_is_removed_when_another_is_kept(kept: Path) -> None:
    kept.parent.mkdir()
    now_s = time.time()
    ages_s = {"old.jsa": UNUSED_S, "new.jsa": 0, "old.1f": ABANDONED_S, "new.2f": 0}
    ages_s["0123456789abcdef-5.jsa"] = 0  # the one before
    for name, age_s in ages_s.items():
        (kept.parent / name).touch()
        os.utime(kept.parent / name, (now_s - age_s - 60, now_s - age_s - 60))
    with NewArchive() as new:
        write(new.options)
        new.keep(takes_all)
    assert {path.name for path in kept.parent.iterdir()} == {kept.name, "new.jsa", "new.2f"}


def test_one_that_is_used_is_not_old(kept: Path) -> None:
    kept.parent.mkdir()
    kept.write_bytes(b"classes")
    os.utime(kept, (0, 0))
    assert find_options()
    assert time.time() - kept.stat().st_mtime < 60


def test_a_path_that_would_be_taken_apart_on_the_way_is_not_given_to_a_jvm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stem = tmp_path / "my classes" / "0123456789abcdef"
    monkeypatch.setattr(class_archive, "archive_stem", lambda: stem)
    assert NewArchive().options == ""
    stem.with_name("0123456789abcdef-0.jsa").touch()
    assert find_options() == ""
