"""The files that run a job under a supervisor, as far as they can be tried without one."""

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from configparser import RawConfigParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer
from ruamel.yaml import YAML

from ashore.cli.app import app
from ashore.errors import AshoreError, ExitCode, ServerRefused, ServerRuns
from ashore.jobs.file import parse_job

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "examples" / "deploy"


def require_command(words: list[str]) -> None:
    """Fail unless a command line is one that `ashore` takes. Nothing is run."""
    assert Path(words[0]).name == "ashore", words
    context = typer.main.get_command(app).make_context("ashore", words[1:2], resilient_parsing=True)
    command = context.command.get_command(context, words[1])  # type: ignore[attr-defined]
    assert command is not None, words
    command.make_context(words[1], words[2:])


def never_again() -> set[int]:
    """Return the exit codes after which a job is not to be started again, as `recovery.md` says."""
    page = (ROOT / "docs" / "operate" / "recovery.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d+) \| .* \| (.*) \|$", page, re.MULTILINE)
    return {int(code) for code, do in rows if do.startswith("do not start again")}


# --- systemd -------------------------------------------------------------------------------------


def read_unit(name: str) -> RawConfigParser:
    parser = RawConfigParser(strict=True)
    parser.optionxform = str  # type: ignore[method-assign,assignment]
    parser.read(DEPLOY / name)
    return parser


@pytest.fixture(scope="module")
def unit() -> RawConfigParser:
    return read_unit("ashore@.service")


def test_the_service_runs_a_command_that_there_is(unit: RawConfigParser):
    require_command(shlex.split(unit["Service"]["ExecStart"]))


def test_the_service_is_not_started_again_after_what_a_start_does_not_help(unit: RawConfigParser):
    codes = {int(code) for code in unit["Service"]["RestartPreventExitStatus"].split()}
    assert codes == never_again()
    page = (ROOT / "docs" / "operate" / "deploy.md").read_text("utf-8")
    [said] = re.findall(r"\*\*Exit codes ([\d, and]+) are not started again\*\*", page)
    assert {int(code) for code in re.findall(r"\d+", said)} == codes
    assert codes < set(ExitCode)
    assert unit["Service"]["Restart"] == "always"


def test_the_service_stops_the_command_and_not_spark(unit: RawConfigParser):
    assert unit["Service"]["KillMode"] == "mixed"
    assert int(unit["Service"]["TimeoutStopSec"]) > 60  # `grace` unless a job file says otherwise


# --- a server ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server_unit() -> RawConfigParser:
    return read_unit("ashore-serve.service")


def test_the_unit_of_a_server_runs_a_command_and_ends_it_alone(server_unit: RawConfigParser):
    service = server_unit["Service"]
    words = shlex.split(service["ExecStart"])
    words[words.index("/etc/ashore/jobs")] = str(ROOT)  # a directory has to exist
    require_command(words)
    assert service["KillMode"] == "process", "jobs survive it"
    prevented = {int(code) for code in service["RestartPreventExitStatus"].split()}
    assert prevented == {2, ServerRuns("").exit_code}


def test_systemd_reads_the_unit_of_a_server(tmp_path: Path):
    """By systemd itself, where there is one: the test above reads it anyway."""
    verify = shutil.which("systemd-analyze")
    if verify is None:
        return
    text = (DEPLOY / "ashore-serve.service").read_text("utf-8")
    command = shlex.split(re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)[0])[0]
    for name, wanted in (("good", True), ("bad", False)):
        unit = tmp_path / f"ashore-{name}.service"
        made = text.replace(command, sys.executable)
        unit.write_text(made if wanted else made.replace("KillMode=process", "KillMode=nobody"))
        done = subprocess.run(
            [verify, "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
        )
        reported = [line for line in done.stderr.splitlines() if unit.stem in line]
        assert (reported == []) is wanted, done.stderr


def test_the_image_of_a_server_is_that_of_a_job_and_serves_at_the_port_that_it_names():
    found = dict(instructions("Containerfile.serve"))
    page = (DEPLOY / "Containerfile.serve").read_text("utf-8")
    tags = re.findall(r"-f examples/deploy/(\S+) -t (\S+) \.", page)
    assert dict(tags) == {"Containerfile": found["FROM"], "Containerfile.serve": "ashore-serve"}
    assert found["ENTRYPOINT"] == dict(instructions())["ENTRYPOINT"]
    words = [*YAML(typ="safe").load(found["ENTRYPOINT"]), *YAML(typ="safe").load(found["CMD"])]
    options = dict(pairwise(words))
    assert options["--port"] == found["EXPOSE"]
    assert f"-p 127.0.0.1:{found['EXPOSE']}:{found['EXPOSE']}" in page
    (volume,) = YAML(typ="safe").load(found["VOLUME"])
    assert options["--state"].startswith(f"{volume}/"), (
        "what the server knows outlives the container"
    )
    words[words.index("/etc/ashore/jobs")] = str(ROOT)
    require_command(words)


def test_the_image_has_what_a_server_needs():
    lock = (ROOT / "requirements.lock").read_text("utf-8")
    locked = {name.lower() for name in re.findall(r"^([\w.-]+)==", lock, re.MULTILINE)}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needed = extras["optional-dependencies"]["server"]
    assert {re.split("[=<>~]", each)[0].strip() for each in needed} <= locked


# --- a container ---------------------------------------------------------------------------------


def instructions(name: str = "Containerfile") -> list[tuple[str, str]]:
    text = (DEPLOY / name).read_text("utf-8")
    lines = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    return [(name, rest.strip()) for name, _, rest in (x.partition(" ") for x in lines.split("\n"))]


def test_what_the_image_copies_is_there():
    for name, rest in instructions():
        if name == "COPY" and not rest.startswith("--from"):
            *sources, _ = rest.split()
            assert [each for each in sources if not (ROOT / each).exists()] == []


def test_the_image_runs_a_command_that_there_is():
    found = {name: rest for name, rest in instructions() if name in {"ENTRYPOINT", "CMD"}}
    words = [*YAML(typ="safe").load(found["ENTRYPOINT"]), *YAML(typ="safe").load(found["CMD"])]
    require_command(words)


def test_python_in_the_image_imports_what_there_is():
    text = (DEPLOY / "Containerfile").read_text("utf-8")
    [code] = re.findall(r'python -c "(.*)"', text)
    importing, _, call = code.partition("; ")
    space: dict[str, Any] = {}
    exec(importing, space)
    set_name = re.findall(r"'([\w-]+)'", call)[0]
    from ashore.jobs.jars import load_lock  # noqa: PLC0415 - the image's own import came first

    assert callable(space["jar_paths"])
    assert set_name in load_lock()


# --- Kubernetes ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def objects() -> dict[str, Any]:
    text = (DEPLOY / "kubernetes.yaml").read_text("utf-8")
    return {each["kind"]: each for each in YAML(typ="safe").load_all(text)}


@pytest.fixture(scope="module")
def container(objects: dict[str, Any]) -> dict[str, Any]:
    [found] = objects["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    return found


def test_the_job_file_of_the_manifest_is_one(objects: dict[str, Any]):
    text = objects["ConfigMap"]["data"]["job.yaml"]
    job = parse_job(text)
    pod = objects["StatefulSet"]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > job.grace_ms / 1000


def test_the_pod_runs_commands_that_there_are(container: dict[str, Any]):
    require_command(["ashore", *container["args"]])
    require_command(container["readinessProbe"]["exec"]["command"])


def test_the_pod_is_put_together_right(objects: dict[str, Any], container: dict[str, Any]):
    spec = objects["StatefulSet"]["spec"]
    assert spec["replicas"] == 1
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"].items() <= labels.items()
    volumes = {each["name"]: each for each in spec["template"]["spec"]["volumes"]}
    assert {each["name"] for each in container["volumeMounts"]} == volumes.keys()
    assert volumes["job"]["configMap"]["name"] == objects["ConfigMap"]["metadata"]["name"]
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert container["args"][1] == f"{mounts['job']}/job.yaml"


def test_the_state_of_the_image_lies_in_the_volume(container: dict[str, Any]):
    """Where the heartbeat of the liveness probe is written."""
    environment = " ".join(rest for name, rest in instructions() if name == "ENV")
    [home] = re.findall(r"ASHORE_HOME=(\S+)", environment)
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert home.startswith(f"{mounts['state']}/")
    assert '"$ASHORE_HOME/jobs"' in container["livenessProbe"]["exec"]["command"][-1]


# --- the page for whoever was paged --------------------------------------------------------------


def kinds(parent: type[AshoreError] = AshoreError) -> set[type[AshoreError]]:
    return {parent}.union(*(kinds(each) for each in parent.__subclasses__()))


def test_every_error_that_no_start_mends_has_a_line_at_3_am():
    page = (ROOT / "docs" / "operate" / "at-3am.md").read_text("utf-8")
    of_servers = kinds(ServerRefused) | kinds(ServerRuns)  # no job ends with them
    codes = {each.code for each in kinds() - of_servers if each.exit_code in never_again()}
    missing = {code for code in codes if f"`{code}`" not in page}
    assert missing == {"stopped"}  # never raised by itself
