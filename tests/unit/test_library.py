"""What is public of Ashore as a library."""

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import ashore

ROOT = Path(__file__).parents[2]
JOB = """\
job: clicks
lake: file://{lake}
source: {{kafka: {{bootstrap_servers: "127.0.0.1:1"}}}}
tables: [{{topic: clicks, table: ods.clicks, decode: text}}]
spark: none
"""


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    path = tmp_path / "job.yaml"
    path.write_text(JOB.format(lake=tmp_path / "lake"))
    return path


def test_what_is_public_is_there_and_sorted() -> None:
    assert ashore.__all__ == sorted(ashore.__all__)
    for name in ashore.__all__:
        assert getattr(ashore, name) is not None
    assert set(dir(ashore)) == set(ashore.__all__)
    with pytest.raises(AttributeError, match="Jobs"):
        ashore.Jobs  # noqa: B018  # type: ignore[attr-defined]


def test_type_checkers_see_what_there_is() -> None:
    tree = ast.parse((ROOT / "src" / "ashore" / "__init__.pyi").read_text("utf-8"))
    homes = {
        alias.asname: node.module
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert homes == ashore._HOMES


def test_nothing_is_imported_before_it_is_asked_for() -> None:
    code = "import ashore, sys; print(*(name for name in sys.modules if name.startswith('ashore')))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert loaded.stdout.split() == ["ashore"]


def test_a_job_is_loaded_or_refused(job_file: Path) -> None:
    job = ashore.Job.load(job_file)
    assert (job.name, job.lake) == ("clicks", f"file://{job_file.parent}/lake")
    job_file.write_text("job: clicks\n")
    with pytest.raises(ashore.AshoreError) as refused:
        ashore.Job.load(job_file)
    assert refused.value.code == "job-file-invalid"


@pytest.mark.slow
def test_a_job_that_never_ran_has_a_status_and_no_log(job_file: Path) -> None:
    job = ashore.Job.load(job_file)
    assert job.slices() == ()
    assert job.status().state == "never started"
    assert list(job.read_log()) == []


@pytest.mark.slow
def test_an_error_of_the_start_is_raised(job_file: Path) -> None:
    with pytest.raises(ashore.AshoreError) as raised:
        ashore.Job.load(job_file).run()
    assert raised.value.code == "source-unreachable"


# ---- the operator for Airflow, with what it uses of Airflow


class Fatal(Exception):
    """As Airflow's: no other try."""


class Operator:
    """As Airflow's, as far as the example uses it."""

    def __init__(self, **more: Any) -> None:
        self.more = more


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    for name, content in (
        ("airflow", {}),
        ("airflow.models", {"BaseOperator": Operator}),
        ("airflow.exceptions", {"AirflowFailException": Fatal}),
    ):
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    path = ROOT / "examples" / "airflow" / "ashore_operator.py"
    spec = importlib.util.spec_from_file_location("ashore_operator", path)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_the_operator_fails_for_good_where_no_other_try_helps(
    example: ModuleType, job_file: Path
) -> None:
    job_file.write_text("job: clicks\n")
    operator = example.AshoreOperator(job_file=str(job_file), task_id="land")
    assert operator.more == {"task_id": "land"}
    with pytest.raises(Fatal, match="job-file-invalid"):
        operator.execute({})
