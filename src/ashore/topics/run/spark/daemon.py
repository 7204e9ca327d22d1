"""The process from which Spark forks a job's Python workers: `spark.python.daemon.module`.

What it is: `pyspark.daemon` that has loaded what tasks import. A worker that imports it itself
takes a second of CPU time: at the start of a job, and after each task that fails.
What it promises: a worker differs from one of `pyspark.daemon` in the time that it takes to start,
and in nothing else. What forks has one thread, and no file open but those it was started with.
What cannot be loaded here is left to the task that needs it, which says so.
"""

import gc
import importlib
import os
import re
import sys
from contextlib import redirect_stdout, suppress
from pathlib import Path

import psutil

from ashore import __version__

MODULE = "ashore.topics.run.spark.daemon"
PLAIN = "pyspark.daemon"
# What the workers run by which this daemon pays; those of Python data sources, say, land nothing.
WORKER = "pyspark.worker"
# Arrow imports pandas the first time that it is given values of Python, if it is there.
LOADED = (
    *(WORKER, "pandas", "ashore.topics.run.spark.task", "ashore_native"),
    # What reads the source `ashore`.
    *("pyspark.sql.worker.plan_data_source_read", "ashore.topics.run.spark.source.data_source"),
)
_FAILED = re.compile(r"^Error from python worker:\n((?:  .*\n|\s*\n)+)", re.MULTILINE)
# What Spark runs into by Unix sockets where a task was cancelled while a daemon failed to start.
_FAILED_BEFORE = re.compile(
    r"NullPointerException.*\n(?:\s+at .*\n){,6}?\s+at .*PythonWorkerFactory"
)
_WITHOUT_ASHORE = re.compile(r"No module named '?ashore\b")


def import_for_tasks() -> None:
    """Import what tasks need, and nothing that starts threads; what fails is as if not asked for.

    A worker that needs what has failed imports it again, so that its task fails, and says why.
    """
    for name in LOADED:
        # Spark reads where the daemon listens from stdout.
        with suppress(Exception, SystemExit), redirect_stdout(sys.stderr):
            importlib.import_module(name)
    os.register_at_fork(after_in_child=_seed_again)
    importlib.invalidate_caches()  # `importlib.metadata` keeps archives of sys.path open
    gc.collect()
    gc.freeze()  # so that no worker's collector looks at, and copies, what all of them share


def _seed_again() -> None:
    """Give this process random numbers of its own; the standard library sees to its own alone."""
    random = sys.modules.get("numpy.random")
    if random is not None:
        random.seed()


def prefer_installed(paths: list[str]) -> list[str]:
    """Return `sys.path` with PySpark's archives last where the same PySpark is installed.

    The JVM puts them first. They hold no byte code: each import out of them compiles.
    """
    packed = [path for path in paths if _is_installed(Path(path), paths)]
    return [path for path in paths if path not in packed] + packed


def _is_installed(archive: Path, paths: list[str]) -> bool:
    """Return whether a path is an archive inside a PySpark package that `paths` lead to."""
    library = Path("pyspark", "python", "lib")
    is_inside = archive.suffix == ".zip" and archive.parent.parts[-3:] == library.parts
    return is_inside and str(archive.parents[3]) in paths


def why_no_worker(error: str) -> str | None:
    """Return why no daemon runs, of the text of an error of Spark; None where it is another error.

    It is the last line that the daemon has written, in a sentence where Ashore is what is missing.
    """
    if _FAILED_BEFORE.search(error):
        return "the daemon of Spark's Python workers has not started; an earlier error says why"
    found = _FAILED.search(error)
    lines = found[1].strip().splitlines() if found else []
    if not lines:
        return None
    message = lines[-1].strip()[:500]
    if _WITHOUT_ASHORE.search(message):
        return f"the Python of the executors has no Ashore {__version__}: {message}"
    return message


def lacks_ashore(error: str) -> bool:
    """Return whether a Python that Spark has started has no Ashore, by the text of an error."""
    return bool(_WITHOUT_ASHORE.search(error))


def main() -> None:
    """Load, and do what `pyspark.daemon` does; be that one where something has started a thread.

    A lock that another thread holds while a process forks stays locked in the fork for ever.
    """
    if sys.argv[1:2] == [WORKER]:
        sys.path[:] = prefer_installed(sys.path)
        import_for_tasks()
        if psutil.Process().num_threads() > 1:  # those of libraries in C included
            sys.stderr.write(f"{MODULE}: a library has a thread: workers import it themselves\n")
            os.execv(sys.executable, [sys.executable, "-m", PLAIN, *sys.argv[1:]])  # noqa: S606
    from pyspark.daemon import manager  # noqa: PLC0415 - from where `prefer_installed` says

    manager()


if __name__ == "__main__":
    main()
