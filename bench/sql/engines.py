"""The engines: the command that runs an order, and where its files are.

What it is: Ashore's job as users start it, and processes of this folder for the others.
What it promises: a file is listed from when a reader may see it: for Spark when its sink's metadata
names it, for the others when it has its final name.
What it must not know: measures.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.peers.streaming import list_committed, list_final
from bench.sql.inputs import DDL
from bench.sql.order import CORES, Order
from bench.sql.queries import LATENESS_S
from bench.sql.settings import ASHORE_BATCH, ASHORE_SQL
from bench.sql.tree import Tree

TITLES = {
    "ashore": "Ashore",
    "spark": "Spark",
    "spark-ashore": "Spark, source `ashore`",
    "flink": "Flink",
}
ENGINES = ("ashore", "spark", "flink")  # what is compared unless others are named
MODULES = {
    "spark": "bench.sql.spark_engine",
    "spark-ashore": "bench.sql.spark_engine",
    "flink": "bench.sql.flink_engine",
}
DEADLINE_S = 1_200.0


def start(order: Order, look: Callable[[], None] = lambda: None) -> Tree:
    """Return the command of an order, not started, and all that it will start."""
    root = Path(order.directory)
    root.mkdir(parents=True, exist_ok=True)
    environment: Mapping[str, str] = {"PYSPARK_PYTHON": sys.executable}
    if order.engine == "ashore":
        ends = () if order.interval_s else ("--available-now",)
        program = Path(sys.executable).with_name("ashore")
        command = [str(program), "run", str(_write_job_file(order)), *ends]
        environment = {"ASHORE_HOME": str(root / "home")}
    else:
        command = [sys.executable, "-m", MODULES[order.engine], order.to_text()]
    log = root / "engine.log"
    return Tree(command, log, DEADLINE_S, environment=environment, look=look)


def list_files(order: Order) -> set[Path]:
    """Return the files of the table that readers see."""
    if order.engine == "ashore":
        return list_final(Path(order.directory, "lake", "bench.db", "result"))
    return list_final(order.table) if order.engine == "flink" else list_committed(order.table)


def checkpoint_bytes(order: Order) -> int:
    """Return how large the files of the checkpoint are now."""
    ashore = Path(order.directory, "lake", ".ashore", "sql", "_checkpoints")
    pending = [ashore if order.engine == "ashore" else order.checkpoint]
    size = 0
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(Path(entry.path))
                    else:
                        size += entry.stat().st_size
        except FileNotFoundError:  # it was there a moment ago
            continue
    return size


def _write_job_file(order: Order) -> Path:
    """Write Ashore's job and return its path. What a user would not set is left out."""
    query, root = order.query, Path(order.directory)
    tables: list[dict[str, object]] = []
    for view, topic in order.topics.items():
        table = {
            "topic": topic,
            "table": f"bench.{view}",
            "land": False,
            "on_invalid": "fail",
            "schema": DDL[view],
        }
        if query.is_timed:
            time = "ts" if " ts " in f" {DDL[view]} " else "date_time"
            table |= {"event_time": {"column": time}, "late": {"after": f"{LATENESS_S}s"}}
        tables.append(table)
    sink = f"`{order.output_topic}`" if query.key else "bench.result"
    sql: dict[str, object] = {**ASHORE_SQL, "text": f"INSERT INTO {sink} {query.spark};"}
    if query.key:
        sql["topics"] = [{"topic": order.output_topic, "mode": "upsert", "key": list(query.key)}]
    else:
        tables.append({"table": "bench.result", "partition_by": []})
    interval = {"interval": f"{order.interval_s * 1000:.0f}ms"} if order.interval_s else {}
    job = {
        "job": "sql",
        "lake": f"file://{root}/lake",
        "source": {
            "kafka": {"bootstrap_servers": order.servers},
            "first_start": {"default": "earliest"},
        },
        "tables": tables,
        "sql": sql,
        "batch": {**ASHORE_BATCH, **interval},
        "spark": {"master": f"local[{CORES}]"},
    }
    path = root / "sql.yaml"
    path.write_text(json.dumps(job, indent=1), "utf-8")
    return path
