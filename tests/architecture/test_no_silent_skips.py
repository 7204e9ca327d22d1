"""The plugin that fails a run which leaves a test out."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(directory: Path, test: str) -> subprocess.CompletedProcess[str]:
    (directory / "test_it.py").write_text(f"import pytest\n\n{test}\n")
    own = directory / "pytest.ini"
    own.write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.no_silent_skips", "-c", str(own)]
    return subprocess.run(
        [*command, str(directory)], cwd=ROOT, capture_output=True, text=True, check=False
    )


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
    answer = run(tmp_path, test)
    assert answer.returncode != 0
    assert "LEFT OUT" in answer.stdout
    assert "test_it.py" in answer.stdout.partition("LEFT OUT")[2]
    assert "no boat" in answer.stdout


def test_a_run_that_leaves_nothing_out_passes(tmp_path: Path):
    assert run(tmp_path, "def test_a(): pass").returncode == 0
