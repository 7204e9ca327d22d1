"""What it costs to rewrite state for other SQL, against replaying the topic.

    python -m bench migrate_apply                                1 and 5 million keys
    python -m bench.migrate_apply measure --keys 20000000        another number; nothing is kept

A topic of small records, one of each key, on a real broker; a job of one INSERT that counts by
window and key, with state in RocksDB, on local disk. It runs over all of the topic; then `ashore
migrate apply` adds a function, so that every row of the state is decoded, made anew, encoded,
counted and compared. Beside it: a job with the new SQL, over all of the topic from the start, which
is what a team does that cannot rewrite state. All times are those of whole processes, with the
start of Spark; memory is the largest sum of the resident sets of the JVMs, and of the Python
processes. Megabytes are those of the files that the last batch needs.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from ashore_lab.services.kafka import Kafka
from ashore_lab.services.producer import create_topics
from bench.rescale import INPUT_PARTITIONS, TOPIC, Run, fill, watch
from bench.table import Row

KEYS = (1_000_000, 5_000_000)
PARTITIONS = 8
START_MS = 1_795_003_200_000
JOB = """\
job: {job}
lake: file://{lake}
source: {{kafka: {{bootstrap_servers: "{servers}"}}, first_start: {{default: earliest}}}}
spark: {{master: "local[2]", conf: {{spark.driver.memory: 4g}}}}
batch: {{interval: 1s}}
sql:
  text: "INSERT INTO ods.{job} SELECT window.start AS day, k, count(*) AS n, {function} AS v FROM \
keys GROUP BY window(event_time, '1 day'), k;"
  state_partitions: {partitions}
tables:
  - topic: {topic}
    table: ods.keys
    land: false
    on_invalid: drop
    schema: "k BIGINT, v BIGINT, ts BIGINT"
    event_time: {{column: ts}}
    late: {{after: 10s}}
  - {{table: ods.{job}, partition_by: []}}
"""


def write_job(folder: Path, servers: str, name: str, job: str, function: str) -> Path:
    """Return a job file. `function`: that the SQL computes beside a count."""
    path = folder / f"{name}.yaml"
    text = JOB.format(
        job=job,
        lake=folder / "lake",
        servers=servers,
        function=function,
        topic=TOPIC,
        partitions=PARTITIONS,
    )
    path.write_text(text, "utf-8")
    return path


def measure(keys: int) -> Iterable[Row]:
    """Yield what a migration of so many keys takes, and what a replay does."""
    ashore = str(Path(sys.executable).with_name("ashore"))

    def run(path: Path) -> Run:
        return watch([ashore, "run", str(path), "--available-now"])

    def apply(old: Path, new: Path, accepted: str) -> Run:
        asked = ["--accept", accepted, "--take-over", "--json"]
        return watch([ashore, "migrate", "apply", str(old), "--to", str(new), *asked])

    with tempfile.TemporaryDirectory(prefix="ashore-migrate-") as name:
        folder = Path(name)
        with Kafka(folder / "kafka") as kafka:
            servers = kafka.bootstrap_servers
            create_topics(servers, {TOPIC: INPUT_PARTITIONS})
            fill(servers, keys, {"ts": START_MS})
            sums, most, swapped, again = (
                write_job(folder, servers, *each)
                for each in (
                    ("sums", "sums", "sum(v)"),
                    ("most", "sums", "max(v) + 0 * min(v)"),
                    ("swapped", "sums", "min(v) + 0 * max(v)"),
                    ("again", "again", "max(v) + 0 * min(v)"),
                )
            )
            run(sums)
            rewritten = apply(sums, most, "lost")
            moved = apply(most, swapped, "convert")
            replayed = run(again)
    for each in (rewritten, moved):
        (applied,) = json.loads(each.said)["applied"]
        if [store["after"] for store in applied["stores"]] != [keys]:
            raise RuntimeError(f"{applied['stores']} were rewritten, of {keys} keys")
    yield from describe(keys, rewritten, moved, replayed)


def describe(keys: int, rewritten: Run, moved: Run, replayed: Run) -> Iterable[Row]:
    """Yield what was measured."""
    said = json.loads(rewritten.said)
    (planned,), (applied,) = said["planned"], said["applied"]
    yield Row(f"{keys:,} keys: rewritten, rows", keys / rewritten.took_s, "rows/s")
    yield Row(f"{keys:,} keys: rewritten, state", planned["bytes"] / 1e6 / rewritten.took_s, "MB/s")
    yield Row(f"{keys:,} keys: rewritten, in all", rewritten.took_s, "s")
    yield Row(f"{keys:,} keys: of it between the verdict and the entry", applied["seconds"], "s")
    yield Row(f"{keys:,} keys: columns moved only, in all", moved.took_s, "s")
    yield Row(f"{keys:,} keys: rewritten, memory of JVMs", rewritten.jvm_peak_bytes / 1e6, "MB")
    yield Row(
        f"{keys:,} keys: rewritten, memory of Python", rewritten.python_peak_bytes / 1e6, "MB"
    )
    yield Row(f"{keys:,} keys: the topic replayed, in all", replayed.took_s, "s")
    yield Row(
        f"{keys:,} keys: the topic replayed, memory of JVMs", replayed.jvm_peak_bytes / 1e6, "MB"
    )
    yield Row(
        f"{keys:,} keys: time of the rewriting against the replay",
        rewritten.took_s / replayed.took_s,
    )


def main(counts: Sequence[int] = KEYS) -> Iterable[Row]:
    """Yield the answers for each number of keys."""
    for keys in counts:
        print(f"   {keys:,} keys", flush=True)
        yield from measure(keys)


def run() -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(prog="python -m bench.migrate_apply")
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("measure", help="measure, and print")
    one.add_argument("--keys", type=int, action="append", help=f"without: {KEYS}")
    options = parser.parse_args()
    for row in main(options.keys or KEYS):
        print(f"{row.question}: {row.figure:,.3g} {row.unit}")


if __name__ == "__main__":
    run()
