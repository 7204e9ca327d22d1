"""The wheel alone: what a user has after `pip install`, outside any checkout."""

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.wheels import ROOT, Installed, build_wheel, install

from ashore import __version__
from ashore_lab.drills import SCENARIOS

JOB = """\
job: clicks
lake: {lake}
source:
  kafka:
    bootstrap_servers: 127.0.0.1:1
tables:
  - topic: clicks
    table: ods.clicks
    schema: "id BIGINT"
catalog: {catalog}
spark: none
"""
HIVE = "{hive: {uri: 'thrift://127.0.0.1:1'}}"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel of `ashore-lab`."""
    return build_wheel(tmp_path_factory.mktemp("lab"), ROOT / "lab")


@pytest.fixture(scope="module")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return install(wheel, tmp_path_factory.mktemp("bare"))


@pytest.fixture(scope="module")
def equipped(wheel: Path, lab: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Return an installation with the lab."""
    return install(wheel, tmp_path_factory.mktemp("equipped"), lab=lab)


def job_file(directory: Path, lake: str, catalog: str = "none") -> Path:
    path = directory / "job.yaml"
    path.write_text(JOB.format(lake=lake, catalog=catalog))
    return path


def test_the_wheel_is_pure_python(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        kinds = {Path(each).suffix for each in archive.namelist()}
    assert not kinds & {".c", ".h", ".rs", ".so", ".1"}, kinds


def test_commands_work_from_the_wheel(bare: Installed) -> None:
    shown = bare.run("--version")
    assert (shown.returncode, shown.stdout, shown.stderr) == (0, f"ashore {__version__}\n", "")
    assert bare.run("--help").returncode == 0
    where = bare.python("-c", "import ashore; print(ashore.__file__)").stdout
    assert where.startswith(str(bare.home))


@pytest.mark.parametrize("command", ["demo", "drill", "services"])
def test_a_command_of_the_lab_names_it_where_it_is_not_installed(
    bare: Installed, command: str
) -> None:
    refused = bare.run(command, "--help")
    assert refused.returncode == 7
    assert refused.stderr == f"error: `ashore {command}` needs: pip install ashore-lab\n"


def test_drills_are_listed_where_the_lab_is_installed(equipped: Installed) -> None:
    listed = equipped.run("drill", "list", "--json")
    assert listed.returncode == 0, listed.stderr
    assert all(each.name in listed.stdout for each in SCENARIOS)


@pytest.mark.long
def test_a_drill_plays_from_the_wheel(equipped: Installed) -> None:
    """In memory: its page, its old lake and its tables come from files beside the code."""
    played = equipped.run("drill", "run", "lost-answers", "--seed", "1", "--directory", "drills")
    assert played.returncode == 0, played.stdout + played.stderr
    assert list((equipped.home / "drills").rglob("*.html"))


def test_what_an_extra_is_for_names_it_where_it_is_not_installed(
    bare: Installed, tmp_path: Path
) -> None:
    on_hdfs = job_file(tmp_path, "hdfs://127.0.0.1:1/lake")
    for command in ("status", "run", "verify"):
        reported = bare.run(command, on_hdfs)
        assert reported.returncode == 7, reported.stderr
        assert "hdfs-native" in reported.stderr
        assert "pip install 'ashore[hdfs]'" in reported.stderr
    with_hive = job_file(tmp_path, f"file://{tmp_path}/lake", HIVE)
    reported = bare.run("run", with_hive, "--json")
    (line,) = reported.stdout.splitlines()
    assert json.loads(line)["code"] == "not-installed"
    assert "thriftpy2" in json.loads(line)["message"]
    assert "ashore[hive]" in json.loads(line)["hint"]
    assert reported.returncode == 7


@pytest.mark.parametrize(
    ("extra", "modules"),
    [
        ("hdfs", ["ashore.storage.hdfs"]),
        ("hive", ["ashore.tables.catalog.hive"]),
    ],
)
def test_an_extra_brings_what_it_is_for(
    wheel: Path, tmp_path: Path, extra: str, modules: list[str]
) -> None:
    installed = install(wheel, tmp_path / "env", extra)
    for module in modules:
        imported = installed.python("-c", f"import {module}")
        assert imported.returncode == 0, imported.stderr


def test_every_module_imports_with_all_extras(wheel: Path, lab: Path, tmp_path: Path) -> None:
    """What a module needs is required by the wheel: the checkout's venv has more than users do."""
    installed = install(wheel, tmp_path / "env", "hdfs", "hive", "iceberg", "s3", "server", lab=lab)
    program = (
        "import importlib, pkgutil, ashore, ashore_lab\n"
        "paths = [(ashore, 'ashore.'), (ashore_lab, 'ashore_lab.')]\n"
        "for each in (m for a, b in paths for m in pkgutil.walk_packages(a.__path__, b)):\n"
        "    if not each.name.endswith('__main__'): importlib.import_module(each.name)\n"
    )
    imported = installed.python("-c", program)
    assert imported.returncode == 0, imported.stderr


def test_the_demo_runs_from_the_wheel(equipped: Installed) -> None:
    ended = equipped.run("demo", "--records", "2000", "--directory", "demo", timeout_s=280)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1] == "lost 0, duplicated 0"


@pytest.fixture
def serving(equipped: Installed) -> Iterator[Installed]:
    yield equipped
    assert equipped.run("services", "down").returncode == 0


@pytest.mark.long
def test_servers_start_from_the_wheel(serving: Installed) -> None:
    started = serving.run("services", "up", "kafka", "hdfs", "hive", "--json", timeout_s=280)
    assert started.returncode == 0, started.stderr
    assert set(json.loads(started.stdout)) == {"kafka", "hdfs", "hive"}
    state = json.loads(serving.run("services", "status", "--json").stdout)
    assert {state[name]["state"] for name in ("kafka", "hdfs", "hive")} == {"up"}
