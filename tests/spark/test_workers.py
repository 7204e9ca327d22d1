"""How the Python workers of jobs start: forked from a process that has loaded what tasks import."""

import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark import tasks
from tests.spark.site import LOCAL, Site, events, table_of
from tests.spark.sql_jobs import clicks, encode, read_only, sql_job
from tests.spark.test_processes import ended, launched

from ashore import __version__
from ashore.jobs.events import Event
from ashore.jobs.failure import Failed
from ashore.topics.run.spark.daemon import MODULE, PLAIN, WORKER
from ashore.topics.run.spark.session import DAEMON

# What Arrow looks for when it is first given values of Python: it does not take long.
LATE = {"pyarrow.pandas_compat", "pyarrow.vendored.version"}
# In every Python that starts: a line for each module that it, or a fork of it, looks for.
_NOTE = """
import os, sys
started, (program, worker) = os.getpid(), (*sys.orig_argv, "-", "-", "-")[2:4]
class Noting:
    def find_spec(self, name, path=None, target=None):
        with open({log!r}, "a") as log:
            log.write(f"{{started}} {{os.getpid()}} {{program}} {{worker}} {{name}}\\n")
sys.meta_path.insert(0, Noting())
"""


@dataclass(frozen=True)
class Imported:
    """What the daemons of a job have imported, and what each fork of them did."""

    daemons: dict[int, set[str]]
    workers: dict[int, set[str]]


def read_imports(log: Path) -> Imported:
    """Read what was noted of Pythons that have forked workers of tasks, and of these.

    Spark forks those that open and plan Python data sources from `pyspark.daemon` in any case.
    """
    daemons: dict[int, set[str]] = defaultdict(set)
    workers: dict[int, set[str]] = defaultdict(set)
    for line in log.read_text().splitlines():
        started, pid, program, runs, module = line.split(" ")
        if program in (MODULE, PLAIN) and runs == WORKER:
            (daemons if started == pid else workers)[int(pid)].add(module)
    return Imported(daemons, workers)


@pytest.fixture
def imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have Pythons that start from now on note what they import, in the file that is returned."""
    log = tmp_path / "imports.log"
    directory = tmp_path / "hook"
    directory.mkdir()
    (directory / "sitecustomize.py").write_text(_NOTE.format(log=str(log)))
    monkeypatch.setenv("PYTHONPATH", str(directory))
    return log


def drained(job_file: Path) -> list[Event]:
    with launched(job_file, available_now=True) as launch:
        code, seen = ended(launch)
        assert code == 0, (seen[-3:], launch.log_path.read_text()[-3000:])
        return seen


def test_workers_of_a_landing_job_import_nothing_that_takes_long(site: Site, imports: Path) -> None:
    topic = site.topic(2)
    site.produce(topic, events(0, 100))
    job_file = site.job_file(table_of(topic), spark=LOCAL)
    drained(job_file)
    found = read_imports(imports)
    assert found.workers
    assert len(found.daemons) == 1
    assert all(modules <= LATE for modules in found.workers.values()), found.workers
    site.prove(job_file)


def test_workers_of_a_query_import_nothing_that_takes_long(site: Site, imports: Path) -> None:
    topic = site.topic(1)
    site.produce(topic, encode(clicks(0, 100)))
    sql = "INSERT INTO ods.ids SELECT id FROM clicks"
    job_file = sql_job(site, sql, read_only(topic), {"table": "ods.ids"})
    drained(job_file)
    found = read_imports(imports)
    assert found.workers
    assert len(found.daemons) == 1
    late = {pid: each - LATE for pid, each in found.workers.items()}
    assert not any(late.values()), late
    assert len(site.read("ods.ids").collect()) == 100


def test_a_daemon_that_the_job_file_names_is_used(site: Site, imports: Path) -> None:
    topic = site.topic(1)
    site.produce(topic, events(0, 10))
    conf = {**LOCAL["conf"], DAEMON: PLAIN}
    drained(site.job_file(table_of(topic), spark={**LOCAL, "conf": conf}))
    found = read_imports(imports)
    assert any("pyarrow" in modules for modules in found.workers.values())
    assert not any("pyarrow" in modules for modules in found.daemons.values())


def without_ashore(monkeypatch: pytest.MonkeyPatch) -> str:
    """Give executors a Python that has no Ashore; return how its error begins."""
    bare = Path(sys.base_prefix, "bin", "python3")
    monkeypatch.setenv("PYSPARK_PYTHON", str(bare))
    return f" failed in Spark: the Python of the executors has no Ashore {__version__}: {bare}: "


def test_a_python_of_executors_without_ashore_is_named(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = site.topic(1)
    site.produce(topic, events(0, 10))
    begin = without_ashore(monkeypatch)
    with launched(site.job_file(table_of(topic), spark=LOCAL), available_now=True) as launch:
        code, seen = ended(launch)
    failed = seen[-1]
    assert isinstance(failed, Failed)
    assert (code, failed.code) == (1, "batch-failed")
    assert begin in failed.message
    assert "No module named 'ashore'" in failed.message


@pytest.mark.long  # the test above finds it before the start
def test_so_it_is_before_a_query_starts(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = site.topic(1)
    site.produce(topic, encode(clicks(0, 10)))
    sql = "INSERT INTO ods.ids SELECT id FROM clicks"
    job_file = sql_job(site, sql, read_only(topic), {"table": "ods.ids"})
    without_ashore(monkeypatch)
    with launched(job_file, available_now=True) as launch:
        code, seen = ended(launch)
    failed = seen[-1]
    assert isinstance(failed, Failed)
    assert (code, failed.code) == (1, "batch-failed")
    assert f"its Python has no Ashore {__version__}: " in failed.message


def test_workers_have_random_numbers_of_their_own(spark: SparkSession) -> None:
    drawn = spark.sparkContext.parallelize(range(2), 2).mapPartitions(tasks.draw).collect()
    assert len({pid for pid, *_ in drawn}) == 2
    for numbers in zip(*drawn, strict=True):
        assert len(set(numbers)) == 2
