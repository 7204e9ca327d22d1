"""Where Java and the jars of PySpark are on this machine, and how servers log.

What it promises: PySpark is located, never imported; a Java that is too old is refused by name.
"""

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

from ashore.errors import JavaMissing, ServiceError

JAVA_MAJOR_MIN = 17
HINT = "install a Java 17 runtime (Debian: apt install openjdk-17-jre-headless), or set JAVA_HOME"

# For a JVM with a short life, or with little to do, on few cores: it compiles quickly and collects
# without threads.
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

LOG4J = """\
rootLogger.level = INFO
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %p %m (%c)%n
"""


@functools.cache
def find_java() -> Path:
    """Return the `java` of JAVA_HOME, else of PATH. Raises JavaMissing when it is not 17 or newer.

    A JAVA_HOME that is set and wrong is an error, not a reason to look further: Spark uses it too.
    """
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not found:
        raise JavaMissing("no java on PATH and JAVA_HOME is not set", hint=HINT)
    major = _read_major_version(found)
    if major is None:
        raise JavaMissing(f"{found} does not run", hint=HINT, path=found)
    if major < JAVA_MAJOR_MIN:
        raise JavaMissing(
            f"{found} is Java {major}, Ashore needs {JAVA_MAJOR_MIN} or newer",
            hint=HINT,
            path=found,
        )
    return Path(found)


def find_pyspark_home() -> Path:
    """Return the directory of the pyspark package, which serves as SPARK_HOME."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise ServiceError("pyspark is not installed", hint="pip install ashore")
    return Path(spec.submodule_search_locations[0])


def pyspark_classpath() -> str:
    """Return the class path of all jars that PySpark brings."""
    return str(find_pyspark_home() / "jars" / "*")


def log4j_option(directory: Path) -> str:
    """Write Log4j's configuration to `directory` and return the option that names it."""
    path = directory / "log4j2.properties"
    path.write_text(LOG4J, "utf-8")
    return f"-Dlog4j2.configurationFile={path}"


def _read_major_version(java: str) -> int | None:
    """Return 17 for `openjdk version "17.0.15"`, 8 for `"1.8.0_292"`, None if it does not run."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    return int(match[1]) if match and answer.returncode == 0 else None
