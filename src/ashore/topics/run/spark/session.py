"""The Spark session of a job.

What it promises: settings that correctness or speed rests on are ours; everything else may be set
in the job file under `spark.conf`.
"""

import atexit
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from ashore.errors import JobFileInvalid, SparkNotStarted
from ashore.jobs.file import Job
from ashore.jobs.file.model import Spark
from ashore.jobs.jars import SHORT_LIVED, jar_paths
from ashore.storage.bucket_conf import find_store
from ashore.storage.open import LakeAddress
from ashore.storage.s3_conf import S3_CLIENT
from ashore.storage.s3_conf import hadoop_settings as s3_settings
from ashore.topics.loop.job import lake_of
from ashore.topics.run.spark.daemon import MODULE
from ashore.topics.write.environment import TASK_ENVIRONMENT

# 65,536 values suit decoding; the bound in bytes keeps a batch of large values in a binary column.
OURS = {
    "spark.scheduler.mode": "FAIR",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(64 << 20),
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
    # ${env:NAME} stays as it is in the SQL, whose text is shown and digested; see `open_frame`.
    "spark.sql.variable.substitute": "false",
    # Spark sets it for frames; so tasks of frames and of RDDs share their Python workers.
    "spark.executorEnv.SPARK_SIMPLIFIED_TRACEBACK": "1",
}
DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "4",
    # Spark keeps what its pages show whether there are pages or not, of a thousand jobs each.
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "50",
    **{f"spark.executorEnv.{name}": value for name, value in TASK_ENVIRONMENT.items()},
    # A file of HDFS can be closed once a DataNode has reported its last block to the NameNode:
    # often a moment after the writer has asked. Hadoop's client asks again after 400 ms, which is
    # most of the time of a commit of state. Each wait is twice the one before: 80 s in all, instead
    # of 12.
    "spark.hadoop.dfs.client.block.write.locateFollowingBlock.initial.delay.ms": "5",
    "spark.hadoop.dfs.client.block.write.locateFollowingBlock.retries": "14",
}
# For a JVM that plans and starts tasks, and sees no record: the compiler for code that runs long,
# and the collector with threads of its own, cost more than they bring, at the start above all. What
# a batch calls is compiled after a tenth of the usual calls: a stream of one batch a second would
# be interpreted for its first minutes.
LIGHT_JVM = {
    f"spark.{process}.extraJavaOptions": " ".join((*SHORT_LIVED, "-XX:CompileThresholdScaling=0.1"))
    for process in ("driver", "executor")
}
DRIVER_OPTIONS = "spark.driver.extraJavaOptions"
# A local master talks to itself only; without this Spark warns about the host's name.
LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
DAEMON = "spark.python.daemon.module"
# Python files that Spark hands to each task, after its worker has started.
PYTHON_FILES = "spark.submit.pyFiles"
# Between the JVM and its Python workers; see `_local_sockets`.
_HADOOP = "spark.hadoop."
_S3_CLIENT = f"{_HADOOP}{S3_CLIENT}"
SOCKETS = "spark.python.unix.domain.socket"
_SOCKET_NAME = len("/.00000000-0000-0000-0000-000000000000.sock")
_SOCKET_PATH_MAX = 107  # of Linux


def hadoop_settings(lake: LakeAddress) -> dict[str, str]:
    """Return what Spark's own client needs to know to reach a lake on HDFS or in a bucket."""
    named = {name: value for name, value in lake.options if "." in name}
    if find_store(lake.uri) == "s3":
        named = s3_settings(dict(lake.options))
    return {f"{_HADOOP}{name}": value for name, value in named.items()}


def application_of(job: Job) -> Spark:
    """Return the Spark application of a job; what has none is planned and tried on this machine."""
    return job.spark or Spark()


def conf_of(job: Job) -> dict[str, str]:
    """Return settings of Spark that suit what a job lets the JVM do; the job's own come last."""
    if job.sql is not None:
        # Spark reads and writes checkpoints by clients of its own.
        checkpoints = replace(lake_of(job), uri=job.place_of_checkpoints)
        return {**hadoop_settings(checkpoints), **application_of(job).conf}
    has_records = any(item.select or item.where for item in job.tables)
    return {**({} if has_records else LIGHT_JVM), **application_of(job).conf}


def with_java_options(conf: Mapping[str, str], java_options: str) -> dict[str, str]:
    """Return settings with options of the driver's JVM: its own come last, and so count."""
    own = conf.get(DRIVER_OPTIONS, "")
    if not java_options or "Archive" in own:
        return dict(conf)
    return {**conf, DRIVER_OPTIONS: f"{java_options} {own}".strip()}


# PySpark writes each refusal of SQL to stderr as JSON with a stack trace; ours is a sentence.
LOUD = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


def start_session(
    name: str, master: str, conf: Mapping[str, str], jars: Sequence[Path]
) -> SparkSession:
    """Start Spark. Raises JobFileInvalid where `conf` sets what is ours, SparkNotStarted.

    Executors run this interpreter on a local master, or PYSPARK_PYTHON where that is set.
    """
    refused = sorted(set(conf) & OURS.keys())
    if refused:
        raise JobFileInvalid(
            f"spark.conf sets {', '.join(refused)}, which Ashore sets itself",
            hint="remove it from the job file",
        )
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(f"ashore {name}").master(master)
    own_jars = conf.get("spark.jars")
    needed = [*jars, *(jar_paths("spark-s3") if _S3_CLIENT in conf else ())]
    all_jars = [str(jar) for jar in needed] + ([own_jars] if own_jars else [])
    local = {**LOOPBACK, **_local_sockets()} if master.startswith("local") else {}
    defaults = {**DEFAULTS, **_daemon(conf), **local}
    settings = {**defaults, **conf, **OURS, "spark.jars": ",".join(all_jars)}
    for key, value in settings.items():
        builder = builder.config(key, value)
    for logger in LOUD:
        PySparkLogger.getLogger(logger).setLevel(logging.CRITICAL)
    on_interrupt = signal.getsignal(signal.SIGINT)
    try:
        session = builder.getOrCreate()
    except Exception as error:  # of PySpark, of Py4J, of the JVM: they have no root in common
        hint = "check `spark.master`, `spark.conf` and the output of Spark"
        message = f"Spark failed to start on {master}: {_words(error)}"
        raise SparkNotStarted(message, hint=hint) from error
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, on_interrupt)  # PySpark puts a handler of its own there
    return session


def _daemon(conf: Mapping[str, str]) -> dict[str, str]:
    """Return the setting by which workers are forked from a process that has loaded Ashore.

    Not where it may be Spark that hands Ashore to tasks: that process would not find it.
    """
    return {} if conf.get(PYTHON_FILES) else {DAEMON: MODULE}


def _local_sockets() -> dict[str, str]:
    """Return settings by which the JVM and Python workers of this machine talk by Unix sockets.

    Over TCP what one of them says in small pieces waits for a delayed acknowledgement, 40 ms for
    each task. The directory is the user's own: who may connect there runs code as this user.
    """
    directory = tempfile.mkdtemp(prefix="ashore-workers-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    if len(os.fsencode(directory)) + _SOCKET_NAME > _SOCKET_PATH_MAX:
        return {}
    return {f"{SOCKETS}.enabled": "true", f"{SOCKETS}.dir": directory}


def _words(error: Exception) -> str:
    """Return what an error says without the trace of the JVM."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    is_of_jvm = len(lines) > 1 and lines[0].startswith("An error occurred while calling")
    return lines[is_of_jvm] if lines else type(error).__name__
