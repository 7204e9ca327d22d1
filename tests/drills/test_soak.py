"""The soak: two hours in `make test-all`; and that a leak, put in on purpose, turns it red."""

import os
from pathlib import Path

import pytest
from tests.drills.soak import FIRST_BATCH_S, Soak, play

from ashore_lab.services.kafka import Kafka

MINUTES = float(os.environ.get("SOAK_MINUTES", "120"))
# Python runs it as each process starts: it leaks in the job process alone, ten times a second.
LEAK = """\
import sys, threading, time
from pathlib import Path

def leak(lake):
    held = []
    number = 0
    while True:
        time.sleep(0.1)
        number += 1
        held.append(open("/dev/null"))
        threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
        log = next(lake.glob(".ashore/*/*/log"), None)
        if log is not None:
            (log.parent / f"left-{number}").write_bytes(b"no janitor knows it")

if "ashore.topics.run.processes.main" in sys.orig_argv:
    threading.Thread(target=leak, args=(Path(%r),), daemon=True).start()
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASHORE_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.mark.long
@pytest.mark.timeout(60 * MINUTES + 1800)
def test_a_job_that_runs_for_long_holds_no_more_than_at_first(kafka: Kafka, home: Path) -> None:
    outcome = play(Soak(MINUTES, lives=4), home / "site", kafka.bootstrap_servers)
    assert outcome.is_good, "\n".join(outcome.lines())
    assert outcome.batches > 10 * MINUTES


@pytest.mark.long
@pytest.mark.timeout(FIRST_BATCH_S + 600)
def test_what_leaks_turns_it_red(kafka: Kafka, home: Path) -> None:
    (home / "leak").mkdir()
    (home / "leak" / "sitecustomize.py").write_text(LEAK % str(home / "site" / "lake"))
    environment = {"PYTHONPATH": str(home / "leak")}
    soak = Soak(0.5, lives=1, uses_spark=False, environment=environment)
    outcome = play(soak, home / "site", kafka.bootstrap_servers)
    grown = {course.gauge.name for course in outcome.grown}
    assert {"threads of the job process", "descriptors", "strange files"} <= grown
    assert not outcome.is_good
    assert outcome.problems == (), "it leaks, and lands each record once"
