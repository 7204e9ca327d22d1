"""Java and its jars: those of PySpark, and those of the lock list `jars.toml`.

What it is: where Java and the jars of PySpark are on this machine, and how servers log; jars of the
list, fetched by PySpark's own Ivy into a cache of the user.
What it promises: PySpark is located, never imported; a Java that is too old is refused by name. A
returned path has exactly the locked bytes; only jars of the list are fetched; with a warm cache no
Java starts and nothing is read again unless size or time changed.
"""

import functools
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from ashore.errors import JarMismatch, JavaMissing, ServiceError

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


Progress = Callable[[str], None]

# ---- jars of the lock list

IVY_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir="{cache}"/>
  <resolvers><ibiblio name="central" m2compatible="true" usepoms="false"/></resolvers>
</ivysettings>
"""
IVY_MODULE = """\
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="ashore" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""


class Checked(NamedTuple):
    """What a file looked like when its checksum was last computed."""

    size: int
    modified_ns: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Jar:
    """One line of the lock list."""

    group: str
    artifact: str
    version: str
    classifier: str  # of a second jar of the same release, such as `tests`; or empty
    sha256: str

    @property
    def coordinate(self) -> str:
        """Return `group:artifact:version`, and the classifier after one more colon."""
        parts = (self.group, self.artifact, self.version, self.classifier)
        return ":".join(filter(None, parts))

    @property
    def path(self) -> str:
        """Return the path of the jar in the cache, relative to it."""
        leaf = "-".join(filter(None, (self.artifact, self.version, self.classifier)))
        return f"{self.group}/{leaf}.jar"


def load_lock() -> dict[str, tuple[Jar, ...]]:
    """Return the jar sets of the lock list, by name."""
    text = (files("ashore.jobs") / "jars.toml").read_text("utf-8")
    return {
        name: tuple(parse_jar(coordinate, sha256) for coordinate, sha256 in jars.items())
        for name, jars in tomllib.loads(text).items()
    }


def parse_jar(coordinate: str, sha256: str) -> Jar:
    """Return the jar of `group:artifact:version`, or of that with `:classifier`."""
    group, artifact, version, *rest = coordinate.split(":")
    return Jar(group, artifact, version, "".join(rest), sha256)


def ivy_dependency(jars: Sequence[Jar], attributes: str) -> str:
    """Return the element of Ivy's module for jars of one release.

    Ivy takes a release once: its jars with and without a classifier stand in one element.
    """
    first = jars[0]
    named = f'org="{first.group}" name="{first.artifact}" rev="{first.version}"'
    artifacts = "".join(
        f'<artifact name="{each.artifact}" type="jar" ext="jar"'
        + (f' m:classifier="{each.classifier}"/>' if each.classifier else "/>")
        for each in jars
    )
    is_plain = not any(each.classifier for each in jars)
    return f"<dependency {named} {attributes}>{'' if is_plain else artifacts}</dependency>"


def by_release(jars: Iterable[Jar]) -> list[list[Jar]]:
    """Return jars in groups of those that one release has."""
    found: dict[tuple[str, str, str], list[Jar]] = {}
    for jar in jars:
        found.setdefault((jar.group, jar.artifact, jar.version), []).append(jar)
    return list(found.values())


def cache_directory() -> Path:
    """Return where jars are kept: $ASHORE_CACHE, else $XDG_CACHE_HOME/ashore, else ~/.cache/ashore.

    Never inside a checkout, so that a fresh clone finds them.
    """
    if own := os.environ.get("ASHORE_CACHE"):
        return Path(own).absolute() / "jars"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "ashore" / "jars"


def jar_paths(
    set_name: str, *, directory: Path | None = None, progress: Progress | None = None
) -> list[Path]:
    """Return the jars of `set_name`, in the order of the lock list, fetching what is missing.

    See `ensure_jars` for what else it does.
    """
    lock = load_lock()
    if set_name not in lock:
        raise ServiceError(
            f"unknown jar set {set_name!r}", hint=f"known: {', '.join(sorted(lock))}"
        )
    say = progress or (lambda _: None)
    return ensure_jars(
        lock[set_name], directory or cache_directory(), lambda text: say(f"{set_name}: {text}")
    )


def ensure_jars(jars: Sequence[Jar], cache: Path, progress: Progress) -> list[Path]:
    """Return the paths of `jars` in `cache`, fetching what is missing.

    Safe to call from several processes at once: one fetches, the others wait for it.
    Raises JarMismatch if a file is not what the list says, ServiceError if one cannot be had.
    If interrupted: only whole, checked jars are in the cache.
    """
    checked = _load_checked(cache)
    if not all(_is_checked(jar, cache, checked) for jar in jars):
        with locked(cache, progress):
            missing = [jar for jar in jars if not (cache / jar.path).exists()]
            if missing:
                _fetch(missing, cache, progress)
            _check_all(jars, cache)
    return [cache / jar.path for jar in jars]


def class_path(set_name: str, *, progress: Progress | None = None) -> str:
    """Return the jars of `set_name` as Java's `-cp` expects them."""
    return os.pathsep.join(str(path) for path in jar_paths(set_name, progress=progress))


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def run_ivy(arguments: Sequence[str], progress: Progress | None = None) -> None:
    """Run Ivy from PySpark's jars. Raises ServiceError with what Ivy said last."""
    command = [str(find_java()), "-cp", pyspark_classpath(), "org.apache.ivy.Main", *arguments]
    output: list[str] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as ivy:
        for line in ivy.stdout or ():
            output.append(line.rstrip())
            if progress and "[SUCCESSFUL" in line:
                progress(line.split("!")[-1].split(" (")[0].strip())
    if ivy.returncode:
        wrong = [line for line in output if "::" in line or "UNRESOLVED" in line or "ERROR" in line]
        raise ServiceError(
            "jars could not be fetched:\n  " + "\n  ".join((wrong or output)[-12:]),
            hint="check the network (Maven Central), then try again: make setup",
        )


def _fetch(jars: Sequence[Jar], cache: Path, progress: Progress) -> None:
    """Bring `jars` into `cache`, each checked before it gets its name.

    Requires: the lock. If interrupted: a `.fetch-` directory remains, the next fetch removes it.
    """
    for left_over in cache.glob(".fetch-*"):
        shutil.rmtree(left_over, ignore_errors=True)
    arrived = iter(range(1, len(jars) + 1))
    progress(f"fetching {len(jars)} jars")
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=cache) as name:
        work = Path(name)
        dependencies = "\n".join(
            ivy_dependency(each, 'transitive="false"') for each in by_release(jars)
        )
        (work / "settings.xml").write_text(IVY_SETTINGS.format(cache=work / "ivy"))
        (work / "ivy.xml").write_text(IVY_MODULE.format(dependencies=dependencies))
        pattern = f"{work}/jars/[organisation]/[artifact]-[revision](-[classifier]).[ext]"
        run_ivy(
            ["-settings", f"{work}/settings.xml", "-ivy", f"{work}/ivy.xml", "-retrieve", pattern],
            lambda jar: progress(f"{next(arrived, len(jars))} of {len(jars)}: {jar}"),
        )
        for jar in jars:
            _install(jar, work / "jars" / jar.path, cache / jar.path)


def _install(jar: Jar, source: Path, target: Path) -> None:
    if not source.exists():
        raise ServiceError(
            f"no such jar: {jar.coordinate}", hint="correct the list: make lock-jars"
        )
    found = sha256_of(source)
    if found != jar.sha256:
        raise _mismatch(
            jar, source.name, found, "the download was discarded; check which server answers at"
        )
    target.parent.mkdir(exist_ok=True)
    source.replace(target)


def _is_checked(jar: Jar, cache: Path, checked: dict[str, Checked]) -> bool:
    known = checked.get(jar.path)
    try:
        now = (cache / jar.path).stat()
    except FileNotFoundError:
        return False
    return known == (now.st_size, now.st_mtime_ns, jar.sha256)


def _check_all(jars: Sequence[Jar], cache: Path) -> None:
    checked = _load_checked(cache)
    for jar in jars:
        if _is_checked(jar, cache, checked):
            continue
        path = cache / jar.path
        before = path.stat()
        found = sha256_of(path)
        if found != jar.sha256:
            raise _mismatch(jar, str(path), found, f"remove {path}: it is downloaded again")
        checked[jar.path] = Checked(before.st_size, before.st_mtime_ns, found)
    _save_checked(cache, checked)


def _mismatch(jar: Jar, where: str, found: str, hint: str) -> JarMismatch:
    return JarMismatch(
        f"{where} is not {jar.coordinate} as locked: expected sha256 {jar.sha256}, found {found}",
        hint=hint,
        path=where,
        expected=jar.sha256,
        found=found,
    )


def _load_checked(cache: Path) -> dict[str, Checked]:
    """Return what is known about the cache. An unreadable note only means checking again."""
    try:
        loaded = json.loads((cache / "checked.json").read_text("utf-8"))
        return {path: Checked(*facts) for path, facts in loaded.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _save_checked(cache: Path, checked: dict[str, Checked]) -> None:
    fresh = cache / ".checked.json"
    fresh.write_text(json.dumps(checked, indent=1, sort_keys=True), "utf-8")
    fresh.replace(cache / "checked.json")


@contextmanager
def locked(directory: Path, progress: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of `directory`, which is made if it is missing. Waits, and says so."""
    from filelock import FileLock, Timeout  # noqa: PLC0415 - most commands lock nothing

    directory.mkdir(parents=True, exist_ok=True)
    lock = FileLock(directory / ".lock")
    try:
        lock.acquire(blocking=False)
    except Timeout:
        progress(f"waiting for another process that uses {directory}")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
