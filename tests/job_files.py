"""What a job file says, for tests on real servers: one topic into one table, without Spark."""

from pathlib import Path


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
