"""What may be loaded where. That imports go down only is for `make lint`: lint-imports."""

import ast
import importlib.util
import pkgutil
import re
import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import ashore
from ashore.storage import Storage

ROOT = Path(__file__).parents[2]

# What runs on executors is imported by every Python worker: nothing heavy, no second Spark.
EXECUTOR_CODE = (
    *("ashore.topics.decode", "ashore.topics.route", "ashore.storage"),
    "ashore.topics.write",
    "ashore.log",
)
NOT_ON_EXECUTORS = {"pyspark", "py4j", "typer", "fastapi", "rich", "confluent_kafka"}

# These start Spark processes or servers; they never load Spark.
CONTROL_CODE = (
    *("ashore.cli", "ashore.proof", "ashore.fleet", "ashore.topics.use", "ashore.queries.tools"),
    *("ashore.queries.change", "ashore_lab.services", "ashore.jobs.file"),
)
NOT_IN_CONTROL = {"pyspark", "py4j"}

# Each takes more than a tenth of the time in which `--help` is to answer.
HEAVY = {"confluent_kafka", "numpy", "pyarrow", "pydantic", "rich", "ruamel", "thriftpy2"}


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )


def modules_below(package: str) -> list[str]:
    """Return `package` and every module in it; nothing if there is no such module (yet)."""
    spec = importlib.util.find_spec(package)
    if spec is None:
        return []
    below = pkgutil.walk_packages(spec.submodule_search_locations or [], f"{package}.")
    return [package, *(module.name for module in below if not module.name.endswith("__main__"))]


def loaded_by(packages: tuple[str, ...]) -> set[str]:
    """Return the top-level names in a fresh interpreter that has imported all of `packages`."""
    modules = [module for package in packages for module in modules_below(package)]
    answer = run(
        f"import {', '.join(modules)}, sys; print(*{{n.split('.')[0] for n in sys.modules}})"
    )
    assert answer.returncode == 0, answer.stderr
    return set(answer.stdout.split())


def test_executor_code_loads_nothing_heavy():
    assert loaded_by(EXECUTOR_CODE) & NOT_ON_EXECUTORS == set()


def test_control_code_loads_no_spark():
    assert loaded_by(CONTROL_CODE) & NOT_IN_CONTROL == set()


@pytest.mark.parametrize("question", ["--help", "--version"])
def test_the_command_line_answers_before_it_loads_what_commands_need(question: str):
    loaded = run(
        "import sys\nfrom ashore.cli import main\n"
        f"sys.argv = ['ashore', {question!r}]\n"
        "try: main()\nexcept SystemExit as end: assert end.code in (0, None)\n"
        "print('\\nloaded', *sys.modules)"
    )
    assert loaded.returncode == 0, loaded.stderr
    names = {name.split(".")[0] for name in loaded.stdout.rpartition("loaded ")[2].split()}
    own = {name for name in loaded.stdout.rpartition("loaded ")[2].split() if "ashore" in name}
    assert names & HEAVY == set()
    assert own == {"ashore", "ashore.cli", "ashore.cli.app", "ashore.errors"}


@pytest.mark.parametrize("package", ["ashore.plans", "ashore.log", "ashore.base", "ashore.errors"])
def test_the_protocol_needs_the_standard_library_only(package: str):
    standard = set(sys.stdlib_module_names) | {"ashore", "__main__"}
    outside = {each for each in loaded_by((package,)) if not each.startswith("_sysconfigdata")}
    outside -= standard  # zoneinfo loads the data of sysconfig, whose name tells the platform
    bare = set(run("import sys; print(*{n.split('.')[0] for n in sys.modules})").stdout.split())
    assert outside - bare == set()


def test_every_package_has_a_docstring():
    for module in pkgutil.walk_packages(ashore.__path__, "ashore."):
        spec = importlib.util.find_spec(module.name)
        assert spec is not None
        assert spec.origin is not None
        assert Path(spec.origin).read_text("utf-8").lstrip().startswith('"""'), module.name


def test_architecture_shows_the_layers_that_are_checked():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    layers = next(each["layers"] for each in contracts["contracts"] if each["type"] == "layers")
    section = (ROOT / "ARCHITECTURE.md").read_text("utf-8").partition("## The layers\n")[2]
    shown = [line.strip() for line in section.splitlines() if line.startswith("    ")]
    assert shown[: len(layers)] == layers


def test_architecture_tells_of_every_folder():
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8").partition("## Code map\n")[2]
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    reported = {line.split("`")[1].split("/")[0] for line in lines}
    package = ROOT / "src" / "ashore"
    there = {path.parent.name for path in package.glob("*/__init__.py")} | {"errors.py"}
    assert there <= reported


def test_architecture_names_the_packages_that_import_a_library():
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8").partition("| library | packages |\n")[2]
    rows = [line.split("|")[1:3] for line in text.split("\n\n")[0].splitlines()[1:]]
    homes = {
        name.strip(): set(re.findall(r"`(\w+)`", where))
        for names, where in rows
        for name in names.split(",")
    }
    real: dict[str, set[str]] = {name: set() for name in homes}
    package = ROOT / "src" / "ashore"
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in {each.split(".")[0] for each in names} & real.keys():
                real[name].add(path.relative_to(package).parts[0])
    assert homes == real


def test_architecture_names_every_storage():
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    (row,) = [line.lower() for line in text.splitlines() if line.startswith("| `Storage` |")]
    for path in (ROOT / "src" / "ashore" / "storage").glob("*.py"):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and node.name.endswith("Storage"):
                assert node.name.removesuffix("Storage").lower() in row, node.name


def test_checkpoint_code_calls_storages_through_its_store_only():
    calls = {name for name in vars(Storage) if not name.startswith("_")} - {"describe"} | {"link"}
    folder = ROOT / "src" / "ashore" / "queries" / "state"
    found = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in calls
        if "storage" in ast.unparse(node.value).lower().rpartition(".")[2]
    }
    assert found == {"files.py"}, "see decision 0059"


def modules_used(
    module: tuple[str, ...], source: str, modules: Collection[tuple[str, ...]]
) -> Iterator[tuple[str, ...]]:
    """Yield the other modules of the native decoder that one declares or names."""
    for child in re.findall(r"^(?:pub )?mod (\w+);", source, re.MULTILINE):
        yield (*module, child)
    paths = r"\b(crate::decode::|(?:super::)+)(?:\{([^}]*)\}|([\w:]+))"
    for start, group, path in re.findall(paths, source):
        above = len(module) - start.count("super")
        for each in (group or path).split(","):
            used = () if start.startswith("crate") else module[:above]
            for name in each.strip().split("::"):
                used = (*used, name) if (*used, name) in modules else used
            if used != module:
                yield used


def test_modules_of_the_native_decoder_form_no_cycle():
    folder = ROOT / "native" / "src" / "decode"
    sources = dict[tuple[str, ...], str]()
    for path in folder.rglob("*.rs"):
        parts = path.relative_to(folder).with_suffix("").parts
        sources[parts[:-1] if parts[-1] == "mod" else parts] = path.read_text("utf-8")
    uses = {name: set(modules_used(name, text, sources)) for name, text in sources.items()}
    assert ("scan", "engine") in uses["scan",]
    TopologicalSorter(uses).prepare()  # raises CycleError, which names them
