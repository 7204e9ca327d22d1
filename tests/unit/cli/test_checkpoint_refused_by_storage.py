"""A directory without permission, and no space: each verb names the file, and changes nothing.

Permissions are the operating system's own: this process gives up what lets root read everything.
"No space" is a system call that answers so: a disk that is really full takes rights that tests do
not have. Verbs that start Spark come to their end before it.
"""

import ctypes
import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.checkpoint_files import opened, unpack
from tests.unit.cli.test_checkpoint_bad_input import CASE, arguments_of, content_of
from tests.unit.cli.test_commands import invoke
from tests.unit.cli.test_versions_commands import JOB

from ashore.errors import CheckpointUnfit
from ashore.queries.state.survey import take_survey
from ashore.storage.system import PosixSystem

LIBC = ctypes.CDLL(None)
VERBS = ("inspect", "savepoint", "rescale", "clean", "doctor", "diff")
_READS_ALL, _SEARCHES_ALL = 1, 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
_DROP = 24  # PR_CAPBSET_DROP


@contextmanager
def closed(directory: Path, mode: int = 0) -> Iterator[None]:
    """Take permissions of a directory away."""
    before = directory.stat().st_mode
    directory.chmod(mode)
    try:
        yield
    finally:
        directory.chmod(before)


def require_denied(arguments: list[object], *named: str) -> None:
    """Run a command for which permissions count, also where root runs these tests."""

    def drop_rights() -> None:
        for each in (_READS_ALL, _SEARCHES_ALL):
            LIBC.prctl(_DROP, each, 0, 0, 0)  # it fails for a user who has not got them

    ashore = Path(sys.executable).with_name("ashore")
    done = subprocess.run(
        [ashore, *map(str, arguments)],
        check=False,
        preexec_fn=drop_rights,
        capture_output=True,
        text=True,
    )
    require_refused(arguments, done.returncode, done.stderr, *named)


@contextmanager
def full_after(writes: int) -> Iterator[list[int]]:
    """Let so many writes to files through, and answer the others that there is no space."""
    patch, real, done = pytest.MonkeyPatch(), PosixSystem.write, list[int]()

    def write(system: PosixSystem, descriptor: int, data: memoryview) -> int:
        done.append(len(data))
        if len(done) > writes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(system, descriptor, data)

    patch.setattr(PosixSystem, "write", write)
    try:
        yield done
    finally:
        patch.undo()


def savepoint_of(root: Path) -> Path:
    code, _, error = invoke("checkpoint", "savepoint", root, "--to", root.parent / "saved")
    assert code == 0, error
    (found,) = (root.parent / "saved").glob("savepoint-*")
    return found


def require_no_space(arguments: list[object], *named: str) -> None:
    code, _, error = invoke(*arguments)
    require_refused(arguments, code, error, "No space left on device", *named)


def require_refused(arguments: list[object], code: int, error: str, *named: str) -> None:
    message = error.replace("\n", " ")
    assert code == 1, (arguments, error)
    assert "Traceback" not in message
    for each in named:
        assert each in message, (arguments, error)


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_a_directory_without_permission_is_named(verb: str, tmp_path: Path) -> None:
    root = unpack(CASE, tmp_path)
    before = content_of(tmp_path)
    with closed(root / "state/0/0"):
        arguments = ["checkpoint", *arguments_of(verb, root, tmp_path / "out")]
        require_denied(arguments, f"{CASE}/state/0/0", "permission there")
    shutil.rmtree(tmp_path / "out", ignore_errors=True)  # of savepoints; there is none
    assert content_of(tmp_path) == before


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["restore", "verify"])
def test_a_savepoint_without_permission_is_named(verb: str, tmp_path: Path) -> None:
    saved = savepoint_of(unpack(CASE, tmp_path))
    before = content_of(tmp_path)
    with closed(saved / "checkpoint/state/0/0"):
        arguments = ["checkpoint", *arguments_of(verb, saved, tmp_path / "out")]
        require_denied(arguments, f"{saved.name}/checkpoint/state/0/0")
    assert not is_checkpoint(tmp_path / "out")
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    assert content_of(tmp_path) == before


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["savepoint", "restore", "rescale"])
def test_a_place_that_nothing_may_be_written_to_is_named(verb: str, tmp_path: Path) -> None:
    root = unpack(CASE, tmp_path / "live")
    place = savepoint_of(root) if verb == "restore" else root
    out = tmp_path / "out"
    out.mkdir()
    before = content_of(tmp_path)
    with closed(out, 0o500):
        arguments = ["checkpoint", *arguments_of(verb, place, out / "new")]
        require_denied(arguments, "new")
    assert content_of(tmp_path) == before


@pytest.mark.slow
def test_what_may_not_be_deleted_stays_and_is_named(tmp_path: Path) -> None:
    root = unpack(CASE, tmp_path)
    old = root / "state/0/7"
    shutil.copytree(root / "state/0/1", old)
    for each in [*root.rglob("*")]:
        os.utime(each, (0, 0))
    before = content_of(tmp_path)
    with closed(old, 0o500):
        require_denied(["checkpoint", "clean", root], f"{CASE}/state/0/7")
    left = content_of(tmp_path)
    assert f"{CASE}/state/0/7" in left
    assert {path: left[path] for path in before if "/state/0/7" not in path} == {
        path: each for path, each in before.items() if "/state/0/7" not in path
    }


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["list", "diff"])
def test_versions_of_a_lake_without_permission_name_the_log(verb: str, tmp_path: Path) -> None:
    log = tmp_path / "lake/.ashore/clicks/ods__big/log"
    log.mkdir(parents=True)
    job_file = tmp_path / "job.yaml"
    job_file.write_text(JOB.format(lake=tmp_path / "lake"))
    with closed(log):
        arguments = [
            "versions",
            verb,
            job_file,
            *(["--query", "ods.big"] if verb == "diff" else []),
        ]
        require_denied(arguments, "ods__big/log")


@pytest.mark.slow
@pytest.mark.parametrize("writes", [0, 2])
@pytest.mark.parametrize("verb", ["savepoint", "restore", "doctor"])
def test_without_space_the_file_is_named_and_nothing_counts(
    verb: str, writes: int, tmp_path: Path
) -> None:
    root = unpack(CASE, tmp_path / "live")
    place = savepoint_of(root) if verb == "restore" else root
    if verb == "doctor":
        (root / "state/0/0/12.zip").write_bytes(b"")  # something to repair
    before, out = content_of(tmp_path / "live"), tmp_path / "out"
    arguments: list[object] = ["checkpoint", *arguments_of(verb, place, out)]
    with full_after(writes) as done:
        require_no_space([*arguments, *(["--to", out] if verb == "doctor" else [])], "out/")
    assert len(done) > writes
    assert content_of(tmp_path / "live") == before
    assert not is_checkpoint(out)


@pytest.mark.slow
def test_a_rescale_without_space_starts_no_spark(tmp_path: Path) -> None:
    root, out = unpack(CASE, tmp_path / "live"), tmp_path / "out"
    before = content_of(tmp_path / "live")
    with full_after(0):
        require_no_space(["checkpoint", *arguments_of("rescale", root, out)], "out/")
    assert content_of(tmp_path / "live") == before
    assert not is_checkpoint(out)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("inspect", "--rows"), ("diff",)], ids=" ".join)
def test_rows_of_state_without_space_for_a_copy_say_where_that_is(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, scratch = unpack(CASE, tmp_path), tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    before = content_of(tmp_path)
    with full_after(1):
        verb, *options = arguments
        command = ["checkpoint", verb, root, *options]
        require_no_space(command, str(scratch), "/now/", "TMPDIR")
    assert content_of(tmp_path) == before


def is_checkpoint(root: Path) -> bool:
    try:
        take_survey(opened(root))
    except CheckpointUnfit:
        return False
    return True
