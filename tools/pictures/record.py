"""Record what jobs report to `ashore demo` and `ashore run`: `python -m tools.pictures.record`.

What it is: a real demo, and the job of docs/use/start.md with its records, each with a broker,
Spark and a lake of its own; the files demo.jsonl and run.jsonl hold their events.
What it promises: nothing is made up; the job of the page is the one that is run.
What it must not know: how events are shown.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ashore.jobs.events import Beat, Event, Landed, StepBegun, encode_event
from ashore.jobs.launch import JobLaunch
from ashore.log.progress import Step
from ashore_lab.demo import Demo
from ashore_lab.services.kafka import Kafka

RECORDS = 1_200_000  # as `ashore demo` without options
HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "use" / "start.md"


class Recorder:
    """Keeps events with their time, and with how many records had been produced by then."""

    def __init__(self, produced: Callable[[], int]) -> None:
        self._produced = produced
        self._began_s = time.monotonic()
        self._lines: list[str] = []

    def take(self, event: Event) -> None:
        """Take an event in."""
        if not isinstance(event, Beat):
            at_ms = round(1000 * (time.monotonic() - self._began_s))
            document = {"at_ms": at_ms, "produced": self._produced(), **encode_event(event)}
            self._lines.append(json.dumps(document) + "\n")

    def write(self, name: str) -> None:
        """Write what was recorded. The lake's directory is nobody's business."""
        text = re.sub(r"file://[^\"]*", "file:///tmp/lake", "".join(self._lines))
        (HERE / name).write_text(text, "utf-8")


def record_demo() -> None:
    """Run the demo as it is."""
    demo = Demo(None, RECORDS)
    recorder = Recorder(lambda: demo.produced)
    demo.run(recorder.take, lambda *_: None)
    recorder.write("demo.jsonl")


def record_run() -> None:
    """Run the job of the page until it has landed its records twice."""
    page = PAGE.read_text("utf-8")
    producing = _block(page, "python", "import json")
    again = re.sub(r"^create_topics.*\n", "", producing, flags=re.MULTILINE)
    recorder, landed = Recorder(lambda: 0), 0
    with tempfile.TemporaryDirectory() as directory, Kafka(Path(directory, "kafka")) as kafka:
        servers = kafka.bootstrap_servers
        text = _block(page, "yaml", "job: clicks").replace("127.0.0.1:9092", servers)
        job_file = Path(directory, "clicks.yaml")
        job_file.write_text(text.replace("file:///tmp/lake", f"file://{directory}/lake"), "utf-8")
        subprocess.run([sys.executable, "-c", producing, servers], check=True)
        with JobLaunch("run", job_file) as launch:
            for event in launch.events():
                recorder.take(event)
                landed += isinstance(event, Landed)
                if isinstance(event, StepBegun) and event.step is Step.IDLE and landed == 1:
                    subprocess.run([sys.executable, "-c", again, servers], check=True)
                if isinstance(event, StepBegun) and event.step is Step.IDLE and landed > 1:
                    launch.stop()
            launch.wait()
    recorder.write("run.jsonl")


def _block(page: str, language: str, begin: str) -> str:
    """Return the block of a page that begins so."""
    found = re.search(
        rf"^```{language}\n({re.escape(begin)}.*?)^```$", page, re.MULTILINE | re.DOTALL
    )
    if found is None:
        sys.exit(f"{PAGE}: no block of {language} begins with {begin!r}")
    return found[1]


if __name__ == "__main__":
    record_run()
    record_demo()
