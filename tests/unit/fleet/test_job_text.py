"""The texts of a job as a page shows them."""

from pathlib import Path

import pytest

from ashore.errors import JobFileInvalid, RequestInvalid
from ashore.fleet.server.pages.job_text import read_job_texts

JOB = """job: clicks
source:
  kafka:
    bootstrap.servers: kafka:9092
    sasl.jaas.config: 'password="hidden"'
sql:
  file: {file}
"""
SQL = "CREATE TEMPORARY VIEW v USING jdbc OPTIONS (url 'x', password 'hidden');\nINSERT INTO a.b;\n"


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    place = tmp_path / "jobs"
    place.mkdir()
    (place / "clicks.sql").write_text(SQL)
    (tmp_path / "other.sql").write_text("SELECT 'hidden'")
    (place / "clicks.yaml").write_text(JOB.format(file="clicks.sql"))
    return place / "clicks.yaml"


def test_a_job_file_and_its_sql_are_shown_without_secrets(job_file: Path) -> None:
    texts = read_job_texts(job_file)
    assert list(texts) == ["clicks.yaml", "clicks.sql"]
    assert "hidden" not in str(texts)
    assert "INSERT INTO a.b;" in texts["clicks.sql"]
    assert "bootstrap.servers: kafka:9092" in texts["clicks.yaml"]


@pytest.mark.parametrize(
    "file", ["../other.sql", "{place}/other.sql", "link.sql", "clicks.yaml", "7"]
)
def test_a_file_elsewhere_is_not_shown(job_file: Path, file: str) -> None:
    (job_file.parent / "link.sql").symlink_to(job_file.parent.parent / "other.sql")
    job_file.write_text(JOB.format(file=file.format(place=job_file.parent.parent)))
    assert list(read_job_texts(job_file)) == ["clicks.yaml"]


def test_a_text_that_cannot_be_read_is_an_error(job_file: Path) -> None:
    (job_file.parent / "clicks.sql").unlink()
    with pytest.raises(RequestInvalid, match=r"clicks\.sql cannot be read"):
        read_job_texts(job_file)
    job_file.write_text("password: [")
    with pytest.raises(JobFileInvalid):
        read_job_texts(job_file)
