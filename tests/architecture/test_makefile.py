"""What make runs: every folder, and every test in one run or another.

`make check` is a part of `make test`, which is all but what is marked `long`; `make test-all` is
everything.
"""

import os
import re
import shlex
import subprocess
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHOICES = {"check": ["not (slow or long)"], "test": ["not long"], "test-all": []}
CLASSES = "tests/drills/test_class_archive.py"  # which spare the others CPU time: it is `early`
# These leave tests out. A marker is chosen by -m alone, which CHOICES holds.
LEAVING_OUT = re.compile(r"-k|--(deselect|ignore|ignore-glob|lf|ff|sw|last-failed|maxfail|co)\b")


@cache
def commands(target: str) -> list[list[str]]:
    """Return the calls of pytest that a target makes, each from its first argument on."""
    own = {name: text for name, text in os.environ.items() if not name.startswith(("M", "TIMES"))}
    command = ["make", "--dry-run", "--no-print-directory", target]
    answer = subprocess.run(command, cwd=ROOT, env=own, capture_output=True, text=True, check=True)
    lines = answer.stdout.replace("\\\n", " ").splitlines()
    calls = [shlex.split(line) for line in lines if " -m pytest " in line]
    return [call[call.index("pytest") + 1 :] for call in calls]


def after(option: str, call: list[str]) -> list[str]:
    return [value for name, value in pairwise(call) if name == option]


@cache
def collected(*arguments: str) -> tuple[str, ...]:
    """Return the names of the tests that a call of pytest runs, in their order."""
    command = [sys.executable, "-m", "pytest", *arguments, "-n", "0", "--collect-only", "-q"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return tuple(line for line in answer.stdout.splitlines() if "::" in line)


@pytest.mark.parametrize("target", ["test", "test-all"])
def test_no_folder_is_left_out(target: str):
    folders = {each.parent.relative_to(ROOT).parts[1] for each in ROOT.glob("tests/**/test_*.py")}
    named = [each for call in commands(target) for each in call if each.startswith("tests/")]
    assert sorted(named) == sorted(f"tests/{each}" for each in folders)


@pytest.mark.parametrize("target", CHOICES)
def test_tests_are_chosen_by_their_marks_alone(target: str):
    assert commands(target)
    for call in commands(target):
        assert after("-m", call) == CHOICES[target]
        assert "tests.no_silent_skips" in after("-p", call)
        assert not [each for each in call if LEAVING_OUT.match(each)]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_make_test_leaves_out_is_what_is_long():
    """Collects the tests as make does, and all of them."""
    calls = [[each for each in call if each != "-q"] for call in commands("test")]
    everyday = {name for call in calls for name in collected(*call)}
    whole = set(collected("tests"))
    assert everyday
    assert everyday < whole
    assert whole - everyday == set(collected("tests", "-m", "long"))
    with_servers = [collected(*call) for call in calls if "--no-loadscope-reorder" in call]
    assert [each[0].partition("::")[0] for each in with_servers] == [CLASSES]


def test_java_is_looked_for_before_there_is_a_package():
    command = [sys.executable, "-S", "-B", "tools/setup_jars.py", "--java-only"]
    own = {**os.environ, "PYTHONPATH": "src", "JAVA_HOME": "/nowhere"}
    answer = subprocess.run(command, cwd=ROOT, env=own, capture_output=True, text=True, check=False)
    assert "JAVA_HOME" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert answer.returncode == 7


@pytest.mark.parametrize(
    ("says", "reason"),
    [("cargo 1.66.0 (d65d197ad 2022-11-15)", "cargo 1.66 is older than "), (None, "no cargo")],
)
def test_setup_goes_on_without_a_cargo_that_builds_the_crate(says, reason, tmp_path: Path):
    if says is not None:
        cargo = tmp_path / "cargo"
        cargo.write_text(f"#!/bin/sh\necho '{says}'\n")
        cargo.chmod(0o755)
    command = [sys.executable, "tools/native.py", "setup"]
    own = {**os.environ, "PATH": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=own, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(reason)
    assert done.stdout.endswith("goes on without the native module (docs/concepts/native.md)\n")
