"""Classes of Spark's JVM in a file, so that the next one starts with a third less work.

What it is: where the archive of this Java, this PySpark and the jars of a job is, and the options
with which a JVM writes it at its end, and uses it.
What it promises: a file that is there is whole. A JVM that an archive does not fit takes no notice
of it, and starts as it does without.
What it must not know: who starts a JVM.
"""

import hashlib
import sys
from pathlib import Path

from ashore.jobs.jars import cache_directory, jar_paths
from ashore.jobs.java import find_java, pyspark_classpath

SILENT = "-Xshare:auto -Xlog:disable"  # else each class that is left out is told on stdout


def archive_path() -> Path:
    """Return where the archive is kept, whether it has been made or not. Raises JavaMissing."""
    java, jars = find_java().resolve(), jar_paths("spark-kafka")
    facts = [
        str(java),
        str(java.stat().st_mtime_ns),
        sys.prefix,
        pyspark_classpath(),
        *map(str, jars),
    ]
    name = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]
    return cache_directory().parent / "classes" / f"{name}.jsa"


def write_options(path: Path) -> str:
    """Return the options of a JVM that writes an archive when it ends well."""
    return f"-XX:ArchiveClassesAtExit={path} {SILENT}"


def use_options(path: Path) -> str:
    """Return the options of a JVM that has an archive."""
    return f"-XX:SharedArchiveFile={path} {SILENT}"
