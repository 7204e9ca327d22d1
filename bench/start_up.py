"""How long `ashore run --available-now` takes to its first batch, against Spark alone.

    python -m bench.start_up

A topic of 1,000 small records on a real broker, a lake on local disk. Spark alone: a Python process
that starts a session with the same settings and jars and runs one job of as many tasks through
`mapInArrow`. Rounds are interleaved; figures are medians of wall time, as nothing here is waited
for but work.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from ashore.jobs.jars import jar_paths
from ashore_lab.services.kafka import Kafka
from bench.table import Row

RECORDS = 1_000
ROUNDS = 4  # the first one warms up
MASTER = "local[2]"
# What an event ends, in the order of the events.
PARTS = {
    "starting": "command line, preflight, imports",
    "started": "Spark session",
    "open": "lake and probe",
    "plan": "log opened",
    "write": "topics joined, batch planned",
    "prepare": "batch read and written",
    "landed": "batch committed",
}


def write_job(folder: Path, number: int, servers: str, ddl: str) -> Path:
    job = {
        "job": f"start-{number}",
        "lake": f"file://{folder}/lake-{number}",
        "source": {
            "kafka": {"bootstrap_servers": servers},
            "first_start": {"default": "earliest"},
        },
        "tables": [{"topic": "records", "table": "bench.records", "schema": ddl}],
        "spark": {"master": MASTER},
    }
    path = folder / f"start-{number}.yaml"
    path.write_text(json.dumps(job), "utf-8")
    return path


def watch(command: list[str]) -> Iterator[tuple[float, dict[str, object]]]:
    """Run a command; yield its events, each with the seconds since the start."""
    began_s = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        for line in process.stdout or ():
            yield time.perf_counter() - began_s, json.loads(line)
    if process.returncode:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}")


def time_ashore(job_file: Path) -> dict[str, float]:
    """Return the seconds that each part of a start takes."""
    script = str(Path(sys.executable).with_name("ashore"))
    reached: dict[str, float] = {}
    for at_s, event in watch([script, "run", str(job_file), "--available-now", "--json"]):
        kind = event["event"]
        reached.setdefault(str(event["step"] if kind == "step" else kind), at_s)
        if kind in {"error", "trouble"}:
            raise RuntimeError(f"the job says {event}")
    parts, last_s = {}, 0.0
    for name in PARTS:
        parts[name] = reached[name] - last_s
        last_s = reached[name]
    return parts


def time_spark() -> float:
    """Return the seconds until Spark alone has run its job."""
    (found, *_) = watch([sys.executable, "-m", "bench.start_up", "spark"])
    return found[0]


def run_spark() -> None:
    """Be the bare process."""
    from ashore.topics.run.spark.session import start_session  # noqa: PLC0415 - a part of what is timed

    spark = start_session("bare", MASTER, {}, jar_paths("spark-kafka"))
    spark.range(0, 2, 1, 2).mapInArrow(lambda batches: batches, "id BIGINT").collect()
    print(json.dumps({"event": "done"}), flush=True)
    spark.stop()


def main() -> list[Row]:
    from bench.peers.workload import SMALL, fill_topic  # noqa: PLC0415 - not in the bare process

    ashore: list[dict[str, float]] = []
    bare: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print("starting a broker ...", file=sys.stderr)
        with Kafka(folder / "kafka") as kafka:
            fill_topic(kafka.bootstrap_servers, "records", SMALL, RECORDS)
            for number in range(ROUNDS):
                job_file = write_job(folder, number, kafka.bootstrap_servers, SMALL.ddl)
                ashore.append(time_ashore(job_file))
                bare.append(time_spark())
    total_s = median(sum(each.values()) for each in ashore[1:])
    spark_s = median(bare[1:])
    print(f"  Spark alone, one job        {spark_s:6.2f} s")
    print(f"  Ashore, first batch landed  {total_s:6.2f} s, of which")
    shares = {part: median(each[part] for each in ashore[1:]) / total_s for part in PARTS}
    for part, share in shares.items():
        print(f"    {PARTS[part]:32} {share:4.0%}")
    own = sum(shares[part] for part in ("open", "plan", "write", "landed"))
    return [
        Row("start to first committed batch v. bare Spark and one job", total_s / spark_s),
        Row("share of it: command line, preflight, imports", shares["starting"]),
        Row("share of it: Spark session", shares["started"]),
        Row("share of it: lake, probe, log, plan, commit", own),
    ]


if __name__ == "__main__":
    if sys.argv[1:] == ["spark"]:
        run_spark()
    else:
        for row in main():
            print(row)
