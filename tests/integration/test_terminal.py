"""`ashore run` and `ashore status` of a real job: its process, and an end that is wanted twice."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psutil
import pytest
from tests.frozen import freeze
from tests.job_files import job_content
from tests.kafka_tools import create_topic, produce

from ashore_lab.services.kafka import Kafka

ASHORE = str(Path(sys.executable).with_name("ashore"))
WITHIN_S = 60.0


@pytest.fixture
def job_file(kafka: Kafka, tmp_path: Path) -> Path:
    topic = f"terminal-{uuid4().hex[:10]}"
    create_topic(kafka.bootstrap_servers, topic, 1)
    produce(kafka.bootstrap_servers, topic, [b'{"id": 1}'] * 100, partition=0)
    path = tmp_path / "other-name.yaml"
    path.write_text(json.dumps(job_content(kafka.bootstrap_servers, tmp_path, topic)))
    return path


class Run:
    """A command that runs, and the lines that it has said."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.lines: list[str] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        for line in self.process.stderr or ():
            self.lines.append(line)

    def wait_for(self, pattern: str) -> "re.Match[str]":
        deadline_s = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline_s:
            for line in list(self.lines):
                if found := re.search(pattern, line):
                    return found
            time.sleep(0.05)
        raise AssertionError(f"{pattern} was not said: {self.lines}")


@contextmanager
def running(job_file: Path, home: Path) -> Iterator[Run]:
    environment = {**os.environ, "ASHORE_HOME": str(home)}
    with subprocess.Popen(
        [ASHORE, "run", str(job_file)], stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            yield Run(process)
        finally:
            process.kill()


def test_an_interrupt_waits_for_the_batch_and_a_second_one_does_not(
    job_file: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    environment = {**os.environ, "ASHORE_HOME": str(home)}
    with running(job_file, home) as run:
        pid = int(run.wait_for(r"started, process (\d+)")[1])
        run.wait_for("landed 100 records")
        status = subprocess.run(
            [ASHORE, "status", str(job_file)],
            capture_output=True, text=True, check=True, env=environment,
        )  # fmt: skip
        assert f"process {pid}" in status.stdout
        freeze(pid)  # a batch that does not end
        run.process.send_signal(signal.SIGINT)
        run.wait_for("finishing the batch, Ctrl-C again to stop now")
        time.sleep(1)
        assert run.process.poll() is None
        run.process.send_signal(signal.SIGINT)
        assert run.process.wait(timeout=20) == 130
        run.wait_for("stopped at once")
    assert not psutil.pid_exists(pid)
    logs = [each.name for each in (home / "logs").iterdir()]
    assert [each.partition("-")[0] for each in logs] == ["landing"], logs
    with running(job_file, home) as run:
        run.wait_for("started, process")
        run.process.send_signal(signal.SIGINT)
        assert run.process.wait(timeout=WITHIN_S) == 0
