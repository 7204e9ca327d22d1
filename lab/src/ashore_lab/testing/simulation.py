"""Servers over simulated jobs: no Kafka, no Spark, real processes.

What it is: `simulated_command`, for `Processes`; `write_simulated_job`.
"""

import sys
from pathlib import Path

from ashore.fleet.machine.processes import StartOrder

SCRIPT = Path(__file__).with_name("simulation_run.py")


def simulated_command(order: StartOrder) -> list[str]:
    """Return the command of a process that stands for one that runs a job."""
    return [sys.executable, "-S", "-E", str(SCRIPT), *order.arguments()]


def write_simulated_job(
    directory: Path, name: str, lake: Path | None = None, labels: str = "{}"
) -> Path:
    """Write a valid job file of a job that cannot run: its broker does not exist."""
    path = directory / f"{name}.yaml"
    lake = lake or directory / "lake"
    path.write_text(
        f"job: {name}\nlake: file://{lake}\n"
        'source: {kafka: {bootstrap_servers: "127.0.0.1:1"}}\n'
        f'tables: [{{topic: {name}, table: ods.{name.replace("-", "_")}, schema: "id BIGINT"}}]\n'
        f"spark: none\nlabels: {labels}\n",
        "utf-8",
    )
    return path
