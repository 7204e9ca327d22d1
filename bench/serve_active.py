"""What a server of active jobs costs: `python -m bench.serve_active [JOBS]`.

Each job lands every 2 s. What is measured is the looking: the jobs are one light writer
(`bench.serve_writer`), which appends entries to a real landing log of each, as a job that lands a
small batch does, and writes where each run is; it holds the locks of all and starts no Spark. Each
log begins with 1,500 entries, each table with the partitions of four days. The broker is a real
one, with a topic for each job; nothing is read from it but offsets. CPU is that of the server's own
process over 30 s, with no client.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ashore.fleet.records.server_files import ServerFiles
from ashore_lab.services.kafka import Kafka
from ashore_lab.services.producer import create_topics
from bench.serve import cpu_percent, phases, serving

SETTLE_S, MEASURED_S = 20.0, 30.0
AIM_PERCENT = 10


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    with tempfile.TemporaryDirectory() as made, Kafka(Path(made) / "kafka") as kafka:
        jobs = Path(made) / "jobs"
        jobs.mkdir()
        ServerFiles.of(jobs).make()
        names = [f"job-{number:03d}" for number in range(count)]
        create_topics(kafka.bootstrap_servers, dict.fromkeys(names, 1))
        writer = [sys.executable, "-m", "bench.serve_writer", str(jobs), kafka.bootstrap_servers]
        with subprocess.Popen([*writer, *names], stdout=subprocess.PIPE, text=True) as writing:
            assert writing.stdout is not None
            assert writing.stdout.readline().strip() == "ready"
            try:
                print(json.dumps({"jobs": count, **measure(jobs, count)}, indent=1))
            finally:
                writing.kill()


def measure(jobs: Path, count: int) -> dict[str, object]:
    with serving(jobs) as (client, process):
        found = phases(client)
        assert found == {"running": count}, found
        time.sleep(SETTLE_S)
        used, system = cpu_percent(process, MEASURED_S)
        listed = client.get("/api/jobs").json()["jobs"]
        return {
            "cpu_percent_of_a_core": used,
            "of_that_in_the_system": system,
            "aim": AIM_PERCENT,
            "memory_mb": round(process.memory_info().rss / 1e6),
            "jobs_whose_lag_is_known": sum(each["lag"] is not None for each in listed),
            "jobs_that_need_a_person": sum(bool(each["needs"]) for each in listed),
            "load_of_the_machine": os.getloadavg()[0],
        }


if __name__ == "__main__":
    main()
