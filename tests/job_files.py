"""What a job file says, for tests on real servers: one topic into one table, without Spark."""

from pathlib import Path

from ashore.jobs.events import Event
from ashore.jobs.launch import JobLaunch, LaunchOptions


def job_content(bootstrap: str, directory: Path, topic: str, **more: object) -> dict[str, object]:
    """Return a job file as data; its lake is in a directory. `more`: what it says besides."""
    return {
        "job": "landing",
        "lake": f"file://{directory}/lake",
        "source": {
            "kafka": {"bootstrap_servers": bootstrap},
            "first_start": {"default": "earliest"},
        },
        "tables": [{"topic": topic, "table": "ods.events", "schema": "id BIGINT"}],
        "spark": "none",
        **more,
    }


def land(job_file: Path, *, uses_spark: bool = False) -> list[Event]:
    """Let a process land what is there, and return its events. Fails where it does."""
    options = LaunchOptions(available_now=True, uses_spark=uses_spark)
    with JobLaunch("run", job_file, options) as launch:
        events = list(launch.events())
        assert launch.wait() == 0, events[-3:]
    return events
