"""Classes that are kept for later starts, with a real JVM."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.cli.test_commands import invoke

from ashore.jobs import class_archive
from ashore.jobs.class_archive import find_archive, is_sound, use_options
from ashore.jobs.jars import find_java


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(None, id="none"),
        pytest.param(b"", id="empty"),
        pytest.param(b"no archive", id="other bytes"),
        pytest.param(bytes(100_000), id="zeros"),
    ],
)
def test_an_archive_that_is_none_stops_no_jvm_and_makes_it_say_nothing(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "0.jsa"
    if content is not None:
        path.write_bytes(content)
    # The version is written to stderr, and what is wrong with an archive to stdout.
    command = [str(find_java()), *use_options(path).split(), "-version"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stdout) == (0, "")
    assert "version" in answer.stderr


@pytest.mark.long
def test_classes_are_kept_and_the_next_start_uses_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stem = tmp_path / "classes" / "0"
    monkeypatch.setattr(class_archive, "archive_stem", lambda: stem)
    code, out, err = invoke("warm-up", "--json")
    assert code == 0, err
    (path,) = stem.parent.iterdir()
    assert json.loads(out) == {"path": str(path), "bytes": path.stat().st_size}
    assert find_archive() == path
    shown = _loaded_classes(path)
    assert "org.apache.spark.SparkContext source: shared objects file (top)" in shown
    half = tmp_path / "half.jsa"
    half.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert is_sound(path)
    assert not is_sound(half)


def _loaded_classes(archive: Path) -> str:
    """Return what a JVM with Spark says of where it has loaded its classes from."""
    code = (
        "from ashore.topics.run.spark.session import start_session\n"
        "import sys\n"
        "options = {'spark.driver.extraJavaOptions': sys.argv[1]}\n"
        "start_session('classes', 'local[1]', options, []).stop()\n"
    )
    options = f"{use_options(archive)} -Xlog:class+load=info:stdout"
    command = [sys.executable, "-c", code, options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
