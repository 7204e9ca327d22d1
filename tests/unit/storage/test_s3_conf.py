"""Options of a bucket become settings of a client, and secrets stay where they belong."""

import pickle
from pathlib import Path

import pytest
from tests.unit.jobs.texts import VALID

from ashore.errors import JobFileInvalid
from ashore.jobs.file import load_job
from ashore.jobs.file.masking import mask_secrets, show_settings
from ashore.storage.bucket_conf import resolve_options
from ashore.storage.open import LakeAddress, lake_address
from ashore.storage.s3_conf import hadoop_settings, load_conf
from ashore.topics.loop.job import lake_of

SECRET = "hunter2hunter2"
KEYS = {"access_key_id": "AKIA", "secret_access_key": SECRET}


@pytest.fixture(autouse=True)
def no_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_PROFILE", raising=False)


def test_a_bucket_is_in_the_path_or_in_the_name_of_the_host() -> None:
    endpoint = {"endpoint": "http://host:9000/"}
    in_path = load_conf("lake", "a", endpoint).store_settings
    in_name = load_conf("lake", "a", {**endpoint, "path_style": "false"}).store_settings
    assert in_path["endpoint"] == "http://host:9000"
    assert in_name["endpoint"] == "http://lake.host:9000"
    assert [each["virtual_hosted_style_request"] for each in (in_path, in_name)] == [False, True]
    assert load_conf("lake", "", endpoint).client_settings == {"allow_http": True}
    assert "endpoint" not in load_conf("lake", "").store_settings
    assert load_conf("lake", "").client_settings == {}


def test_every_write_has_a_condition() -> None:
    settings = load_conf("lake", "").store_settings
    assert (settings["conditional_put"], settings["copy_if_not_exists"]) == ("etag", "multipart")


def test_certificates_travel_by_their_content(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_text("certificate")
    resolved = resolve_options({"ca_file": str(path)})
    path.unlink()
    assert load_conf("b", "", resolved).client_settings == {"root_certificate": "certificate"}
    with pytest.raises(JobFileInvalid, match="cannot be read"):
        resolve_options({"ca_file": str(path)})


def test_a_profile_is_refused_unless_keys_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    monkeypatch.setenv("AWS_PROFILE", "dev")
    with pytest.raises(JobFileInvalid, match="profiles are not supported"):
        load_conf("b", "")
    assert load_conf("b", "", KEYS).store_settings["access_key_id"] == "AKIA"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA")
    assert load_conf("b", "").bucket == "b"


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(JobFileInvalid, match="'acl'"):
        load_conf("b", "", {"acl": "public"})


def test_no_secret_is_shown(tmp_path: Path) -> None:
    address = lake_address("s3://b/x", 60, KEYS)
    assert SECRET not in repr(address)
    assert SECRET not in repr(load_conf("b", "x", KEYS))
    assert dict(pickle.loads(pickle.dumps(address)).options) == KEYS
    text = VALID.replace("file:///data/lake", "s3://b/x")
    text += f"s3: {{access_key_id: AKIA, secret_access_key: {SECRET}}}\n"
    path = tmp_path / "clicks.yaml"
    path.write_text(text)
    job = load_job(path)
    assert isinstance(lake_of(job), LakeAddress)
    assert dict(lake_of(job).options)["secret_access_key"] == SECRET
    assert SECRET not in mask_secrets(text).text
    assert SECRET not in repr(show_settings(job))


@pytest.mark.parametrize(
    "section",
    [
        "{access_key_id: AKIA}",
        "{endpoint: minio}",
        "{endpoint: 'http://user:pw@host'}",
        "{endpoint: 'http://h:99999'}",
    ],
)
def test_a_section_that_cannot_be_is_refused(section: str, tmp_path: Path) -> None:
    path = tmp_path / "clicks.yaml"
    path.write_text(VALID.replace("file:///data/lake", "s3://b/x") + f"s3: {section}\n")
    with pytest.raises(JobFileInvalid):
        load_job(path)


@pytest.mark.parametrize(
    ("lake", "place", "expected"),
    [
        ("s3://b/x", "hdfs://lake/x", "are there or on a disk"),
        ("hdfs://lake/x", "s3://b/x", "only where the lake is too"),
        ("gs://b/x", "", "cannot be in Google"),
        ("file:///data/lake", "gs://b/x", "cannot be in Google"),
        ("s3://b/x", "az://b/x", "cannot be in Azure"),
    ],
)
def test_checkpoints_that_cannot_be_reached_are_refused(
    tmp_path: Path, lake: str, place: str, expected: str
) -> None:
    path = tmp_path / "clicks.yaml"
    named = f", checkpoints: '{place}'" if place else ""
    sql = f"sql: {{text: SELECT 1{named}}}\n"
    path.write_text(VALID.replace("file:///data/lake", lake) + sql)
    with pytest.raises(JobFileInvalid, match=expected):
        load_job(path)


def test_spark_reaches_the_bucket_as_we_do() -> None:
    found = hadoop_settings({**KEYS, "endpoint": "http://host:9000"})
    assert found["fs.s3a.endpoint"] == "http://host:9000"
    assert found["fs.s3a.secret.key"] == SECRET
    assert found["fs.s3a.connection.ssl.enabled"] == "false"
    assert "fs.s3a.aws.credentials.provider" not in found
    of_environment = hadoop_settings({})
    assert "WebIdentity" in of_environment["fs.s3a.aws.credentials.provider"]
    assert of_environment["fs.s3a.connection.ssl.enabled"] == "true"
