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
COLLECTED = re.compile(r"=* ?(?:\d+/)?(?P<found>\d+) tests collected")
LEAVING_OUT = re.compile(r"-k|--(deselect|ignore|ignore-glob|lf|ff|sw|last-failed|maxfail|co)\b")


# What a `make test` around this test would choose for the one that is asked.
_OF_MAKE = ("M", "TIMES", "CHOSEN")


@cache
def commands(target: str) -> list[list[str]]:
    """Return the calls of pytest that a target makes, each from its first argument on."""
    own = {name: text for name, text in os.environ.items() if not name.startswith(_OF_MAKE)}
    command = ["make", "--dry-run", "--no-print-directory", target]
    answer = subprocess.run(command, cwd=ROOT, env=own, capture_output=True, text=True, check=True)
    lines = answer.stdout.replace("\\\n", " ").splitlines()
    calls = [shlex.split(line) for line in lines if " -m pytest " in line]
    return [call[call.index("pytest") + 1 :] for call in calls]


def after(option: str, call: list[str]) -> list[str]:
    return [value for name, value in pairwise(call) if name == option]


def collected(*arguments: str) -> tuple[list[str], int]:
    """Return the names of the tests that a call of pytest runs, in their order.

    And how many it has found: those too that it leaves out.
    """
    command = [sys.executable, "-m", "pytest", *arguments, "-n", "0", "--collect-only", "-q"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    *lines, last = answer.stdout.splitlines()
    count = COLLECTED.match(last)
    assert count is not None, last
    return [line for line in lines if "::" in line], int(count["found"])


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


@pytest.mark.parametrize("target", ["test", "test-all"])
def test_each_half_keeps_its_time(target: str):
    names = [each for call in commands(target) for each in call if each.startswith("--history=")]
    assert names == ["--history=fast", "--history=servers"]
    assert all("tests.times" in after("-p", call) for call in commands(target))


def test_a_run_is_timed_by_file_and_appended_to_those_before(tmp_path: Path):
    (tmp_path / "test_one.py").write_text("def test_it(): pass\n")
    (tmp_path / "test_two.py").write_text("def test_it(): assert False\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    plugins = ["-p", "xdist", "-p", "tests.times"]  # others take seconds to load
    command = [sys.executable, "-m", "pytest", *plugins, "--history=fast", "-n", "2"]
    own = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    for _ in range(2):
        done = subprocess.run(
            command, cwd=tmp_path, env=own, capture_output=True, text=True, check=False
        )
        assert done.returncode == 1, done.stdout
    slowest = done.stdout.partition("slowest 10 files")[2]
    assert set(re.findall(r" s  (\S+)", slowest)) == {"test_one.py", "test_two.py"}
    assert "; earlier runs are in build/test-times.tsv" in slowest
    rows = (tmp_path / "build" / "test-times.tsv").read_text("utf-8").splitlines()
    kept = [(row[2], row[4:]) for row in (row.split("\t") for row in rows)]
    assert kept == [("fast", ["1", "1"])] * 2


def with_servers(calls: list[list[str]]) -> list[list[str]]:
    return [each for each in calls if "--no-loadscope-reorder" in each]


@pytest.mark.slow
def test_tests_with_servers_begin_with_what_spares_the_others_time():
    (call,) = with_servers(commands("test"))
    names, _ = collected(*(each for each in call if each != "-q"))
    assert names[0].partition("::")[0] == CLASSES


@pytest.mark.long  # it collects all tests twice; every day the calls are looked at, above
@pytest.mark.timeout(600)
def test_what_make_test_leaves_out_is_what_is_long():
    """Collects the tests as make does, and what is long: together they are all that there are."""
    calls = [[each for each in call if each != "-q"] for call in commands("test")]
    everyday = [name for call in calls for name in collected(*call)[0]]
    long, whole = collected("tests", "-m", "long")
    assert everyday
    assert long
    assert len({*everyday, *long}) == len(everyday) + len(long) == whole


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
    assert done.stdout.endswith("goes on without the native module (docs/internals/native.md)\n")
