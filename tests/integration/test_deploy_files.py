"""What `examples/deploy` says is done here, as far as that goes without an engine or a cluster.

The commands of the image, the pod and the unit are taken from the files and run: the build with
nothing but what is copied, the job as the pod runs it, its probes against that job. What stands for
the machine around them is a directory: `/etc/ashore` and `/var/lib/ashore` are in it.
"""

import json
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from configparser import RawConfigParser
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psutil
import pytest
from ruamel.yaml import YAML
from tests.kafka_tools import create_topic, produce
from tests.wheels import SCRIPT, Installed, install

from ashore_lab.services.kafka import Kafka

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "examples" / "deploy"
DEADLINE_S = 120
STALE_S = 20 * 60  # older than the liveness probe takes


# --- the image -----------------------------------------------------------------------------------


def stages() -> list[list[tuple[str, str]]]:
    """Return the instructions of the image, stage by stage."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Containerfile").read_text("utf-8"), flags=re.MULTILINE)
    found: list[list[tuple[str, str]]] = []
    for line in text.replace("\\\n", " ").splitlines():
        name, _, rest = line.strip().partition(" ")
        if name == "FROM":
            found.append([])
        if name:
            found[-1].append((name, rest.strip()))
    return found


def copied(directory: Path) -> Path:
    """Copy what the first stage copies, and nothing else; return its `/src`."""
    for name, rest in stages()[0]:
        if name != "COPY":
            continue
        *sources, target = rest.split()
        place = directory / target.strip("/")
        for each in sources:
            if (ROOT / each).is_dir():  # its contents are copied, not the directory
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(ROOT / each, place, ignore=ignored)
            else:
                place.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / each, place)
    return directory / "src"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Install what the image copies, in an environment of its own."""
    directory = tmp_path_factory.mktemp("image")
    source = copied(directory)
    built = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)]
    done = subprocess.run(built, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = directory.glob("*.whl")
    return install(wheel, directory / "opt", "hdfs", "hive")


def test_the_lock_that_the_image_installs_holds_what_builds_and_what_runs_it(image: Installed):
    """`--no-deps` and `--no-index` take what is in the lock and fetch nothing besides."""
    lock = (ROOT / "requirements.lock").read_text("utf-8")
    locked = {name.lower() for name in re.findall(r"^([\w.-]+)==", lock, re.MULTILINE)}
    build = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"]["requires"]
    assert {re.split("[=<>~]", each)[0] for each in build} <= locked
    (packages,) = image.home.glob("lib/python*/site-packages")
    metadata = next(packages.glob("ashore-*.dist-info")) / "METADATA"
    needed = re.findall(r"^Requires-Dist: ([\w.-]+)[^;\n]*$", metadata.read_text(), re.MULTILINE)
    assert needed
    assert {each.lower() for each in needed} <= locked


def test_what_the_image_fetches_is_a_set_of_jars(image: Installed):
    (command,) = (rest for name, rest in stages()[1] if name == "RUN" and rest.startswith("python"))
    _, *arguments = shlex.split(command)
    done = image.python(*arguments, timeout_s=600)
    assert done.returncode == 0, done.stderr


# --- the job, as the pod runs it -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pod:
    """A directory that stands for a container, and the commands of the manifest in it."""

    image: Installed
    directory: Path
    manifest: dict[str, Any]

    @property
    def container(self) -> dict[str, Any]:
        (found,) = self.manifest["StatefulSet"]["spec"]["template"]["spec"]["containers"]
        return found

    @property
    def environment(self) -> dict[str, str]:
        """What the image sets, in this directory; the cache of jars is that of the machine."""
        (line,) = (rest for name, rest in stages()[1] if name == "ENV")
        said = dict(re.findall(r"(\w+)=(\S+)", line))
        return {
            **os.environ,
            "PATH": f"{self.image.home}/bin:{os.environ['PATH']}",
            "ASHORE_HOME": self.inside(said["ASHORE_HOME"]),
        }

    def inside(self, text: str) -> str:
        """Return a command or path of the container as it is in this directory."""
        return re.sub(r"(?<![\w/])/(etc|var/lib)/ashore", rf"{self.directory}/\1/ashore", text)

    def command(self, words: list[str]) -> list[str]:
        """Return a command of the manifest; `ashore` is that of the image."""
        words = [self.inside(each) for each in words]
        if words[0] != "ashore":
            return words
        return [str(self.image.home / "bin" / "python"), "-c", SCRIPT, *words[1:]]

    def start(self) -> subprocess.Popen[str]:
        """Run what the container runs."""
        return subprocess.Popen(
            self.command(["ashore", *self.container["args"]]),
            env=self.environment,
            cwd=self.directory,
            stderr=subprocess.PIPE,  # with --log-format json its lines are JSON
            text=True,
        )

    def probe(self, name: str) -> int:
        """Run a probe and return its exit code. It must answer in the time that it has."""
        probe = self.container[name]
        words = self.command(probe["exec"]["command"])
        done = subprocess.run(
            words,
            env=self.environment,
            cwd=self.directory,
            capture_output=True,
            timeout=max(DEADLINE_S, probe["timeoutSeconds"]),
            check=False,
        )
        return done.returncode

    def heartbeats(self) -> list[Path]:
        """Return the files that the liveness probe looks at."""
        return list((self.directory / "var/lib/ashore").rglob("jobs/*"))


@pytest.fixture
def pod(image: Installed, kafka: Kafka, tmp_path: Path) -> Pod:
    """Lay a pod out: the job file of its ConfigMap, but for lake, broker and engine."""
    text = (DEPLOY / "kubernetes.yaml").read_text("utf-8")
    manifest = {each["kind"]: each for each in YAML(typ="safe").load_all(text)}
    job = YAML(typ="safe").load(manifest["ConfigMap"]["data"]["job.yaml"])
    topic = f"clicks-{uuid4().hex[:10]}"
    create_topic(kafka.bootstrap_servers, topic, 1)
    values = [b'{"id":%d,"ts":1795000000000,"country":"DE"}' % each for each in range(100)]
    produce(kafka.bootstrap_servers, topic, values, partition=0)
    job["tables"][0]["topic"] = topic
    job["source"]["kafka"]["bootstrap_servers"] = kafka.bootstrap_servers
    job |= {"lake": f"file://{tmp_path}/lake", "spark": "none", "batch": {"interval": "1s"}}
    (tmp_path / "etc/ashore").mkdir(parents=True)
    (tmp_path / "var/lib/ashore").mkdir(parents=True)
    (tmp_path / "etc/ashore/job.yaml").write_text(json.dumps(job))
    return Pod(image, tmp_path, manifest)


@pytest.fixture
def running(pod: Pod) -> Iterator[subprocess.Popen[str]]:
    process = pod.start()
    try:
        wait_for_line(process, "landed")
        yield process
    finally:
        process.kill()
        process.communicate()  # closes the pipe


def wait_for_line(process: subprocess.Popen[str], wanted: str) -> None:
    """Read lines, each of which is JSON, until one tells of an event. Fails at the end."""
    seen = []
    assert process.stderr is not None
    for line in process.stderr:
        seen.append(json.loads(line))
        if seen[-1].get("event") == wanted:
            return
    raise AssertionError(f"ended with {process.wait()}: {seen}")


def wait_until_ready(pod: Pod) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while pod.probe("readinessProbe") != 0:
        assert time.monotonic() < deadline_s


def wait_until_gone(pod: Pod) -> None:
    """Wait for the job process: it ends after its parent, and writes a last heartbeat."""
    deadline_s = time.monotonic() + DEADLINE_S
    for each in pod.heartbeats():
        while each.is_file() and psutil.pid_exists(json.loads(each.read_text("utf-8"))["pid"]):
            assert time.monotonic() < deadline_s
            time.sleep(0.1)


@pytest.mark.long  # the job that is gone was well before
def test_the_probes_tell_a_job_that_is_well(pod: Pod, running: subprocess.Popen[str]) -> None:
    wait_until_ready(pod)
    assert pod.probe("livenessProbe") == 0
    running.send_signal(signal.SIGTERM)
    spec = pod.manifest["StatefulSet"]["spec"]["template"]["spec"]
    assert running.wait(spec["terminationGracePeriodSeconds"]) == 0


def test_the_probes_tell_a_job_that_is_gone(pod: Pod, running: subprocess.Popen[str]) -> None:
    wait_until_ready(pod)
    running.kill()
    running.wait()
    wait_until_gone(pod)
    assert pod.probe("livenessProbe") == 0, "its last heartbeat is young"
    for each in pod.heartbeats():
        os.utime(each, (time.time() - STALE_S,) * 2)
    assert pod.probe("livenessProbe") != 0


def test_the_probes_of_a_job_that_never_came_up_say_so(pod: Pod) -> None:
    assert pod.probe("readinessProbe") != 0
    assert pod.probe("livenessProbe") != 0


# --- the unit ------------------------------------------------------------------------------------

SINCE_254 = {"RestartSteps", "RestartMaxDelaySec"}


def test_systemd_reads_the_unit(image: Installed, tmp_path: Path) -> None:
    """By systemd itself where there is one, but for what an older one does not know."""
    text = (DEPLOY / "ashore@.service").read_text("utf-8")
    parser = RawConfigParser(strict=True)
    parser.optionxform = str  # type: ignore[method-assign,assignment]
    parser.read_string(text)
    command = shlex.split(parser["Service"]["ExecStart"])[0]
    assert text.count(command) == 1
    verify = shutil.which("systemd-analyze")
    if verify is None:
        return  # `tests/architecture/test_deploy.py` has read it
    unit = tmp_path / "ashore@clicks.service"
    unit.write_text(text.replace(command, str(image.home / "bin" / "python")))
    done = subprocess.run(
        [verify, "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    reported = [line for line in done.stderr.splitlines() if unit.stem in line]
    unknown = {name for line in reported for name in re.findall(r"Unknown key '(\w+)'", line)}
    assert unknown <= SINCE_254
    assert [line for line in reported if "Unknown key" not in line] == []


# --- a server ------------------------------------------------------------------------------------


def words_of_unit() -> list[str]:
    """Return what systemd runs of a server, without the path of the command."""
    parser = RawConfigParser(strict=True)
    parser.optionxform = str  # type: ignore[method-assign,assignment]
    parser.read_string((DEPLOY / "ashore-serve.service").read_text("utf-8"))
    return shlex.split(parser["Service"]["ExecStart"])[1:]


def words_of_container() -> list[str]:
    """Return what the image of a server runs, without its entry point."""
    text = (DEPLOY / "Containerfile.serve").read_text("utf-8")
    (command,) = re.findall(r"^CMD (.*)$", text, re.MULTILINE)
    found: list[str] = json.loads(command)
    return found


@pytest.mark.parametrize("words", [words_of_unit(), words_of_container()], ids=["unit", "image"])
def test_the_command_of_a_server_serves(words: list[str], tmp_path: Path) -> None:
    """With the paths of this directory and any free port; it ends by SIGTERM, as both ask."""
    for each in ("etc/ashore/jobs", "var/lib/ashore", "data"):
        (tmp_path / each).mkdir(parents=True)
    placed = [re.sub(r"^/(?=etc/|var/|data)", f"{tmp_path}/", each) for each in words]
    if "--host" in placed:  # the image listens to its own network; this machine's is not for it
        placed[placed.index("--host") + 1] = "127.0.0.1"
        placed[placed.index("--port") + 1] = "0"
    else:
        placed += ["--port", "0"]
    command = [sys.executable, "-c", SCRIPT, *placed]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            url = server.stderr.readline().split()[-1]
            assert httpx.get(f"{url}/ui/login").status_code == 200
            assert httpx.get(f"{url}/api/jobs").status_code == 401
            (tokens,) = (tmp_path / "var/lib/ashore/serve").rglob("tokens.json")
            assert stat.S_IMODE(tokens.stat().st_mode) == 0o600
        finally:
            server.terminate()
        assert server.wait(DEADLINE_S) == 0
