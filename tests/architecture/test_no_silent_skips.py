"""The plugin that fails a run which leaves a test out."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INI = "[pytest]\nmarkers =\n    long: the rest\n    fast: the others\n"
# Other plugins take a second each run. Byte code is told from its source by second and size only: a
# test of the same length that follows within the second would run as the one before it.
OWN = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}
LONG = "@pytest.mark.long\ndef test_a(): pass\n\ndef test_b(): pass"


def run(directory: Path, test: str, *options: str) -> subprocess.CompletedProcess[str]:
    (directory / "test_it.py").write_text(f"import pytest\n\n{test}\n")
    own = directory / "pytest.ini"
    own.write_text(INI)
    python = [sys.executable, "-m", "pytest"]
    command = [*python, "-q", "-p", "xdist", "-p", "tests.no_silent_skips", "-c", str(own)]
    return subprocess.run(
        [*command, *options, str(directory)],
        cwd=ROOT,
        env={**os.environ, **OWN},
        capture_output=True,
        text=True,
        check=False,
    )


def assert_named(answer: subprocess.CompletedProcess[str], words: str) -> None:
    assert answer.returncode != 0
    assert "LEFT OUT" in answer.stdout
    assert "test_it.py" in answer.stdout.partition("LEFT OUT")[2]
    assert words in answer.stdout


@pytest.mark.parametrize(
    "test",
    [
        "@pytest.mark.skip(reason='no boat')\ndef test_a(): pass\n\ndef test_b(): pass",
        "def test_a(): pytest.skip('no boat')\n\ndef test_b(): pass",
        "pytest.skip('no boat', allow_module_level=True)",
        "pytest.importorskip('nobody_wrote_this', reason='no boat')",
        "@pytest.mark.xfail(reason='no boat')\ndef test_a(): assert 0\n\ndef test_b(): pass",
    ],
)
def test_what_is_left_out_fails_the_run_and_is_named(tmp_path: Path, test: str):
    assert_named(run(tmp_path, test), "no boat")


def test_a_run_that_leaves_nothing_out_passes(tmp_path: Path):
    assert run(tmp_path, "def test_a(): pass").returncode == 0


@pytest.mark.parametrize("workers", ["0", pytest.param("1", marks=pytest.mark.slow)])
def test_what_is_not_chosen_has_to_be_marked(tmp_path: Path, workers: str):
    assert run(tmp_path, LONG, "-n", workers, "-m", "not long").returncode == 0
    other = LONG.replace("long", "fast")
    assert_named(run(tmp_path, other, "-n", workers, "-m", "not fast"), "not chosen")
