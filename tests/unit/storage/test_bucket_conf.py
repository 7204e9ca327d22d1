"""Addresses and options of Azure's and Google's stores become settings of a client."""

import json
import pickle
from pathlib import Path

import pytest
from tests.unit.jobs.texts import VALID

from ashore.errors import JobFileInvalid, StorageError
from ashore.jobs.file import load_job
from ashore.jobs.file.masking import mask_secrets, show_settings
from ashore.storage import azure_conf, gcs_conf
from ashore.storage.objects import storage_errors
from ashore.storage.open import LakeAddress, lake_address
from ashore.topics.loop.job import lake_of

SECRET = "hunter2hunter2"
ABFS = "abfs://lake@acme.dfs.core.windows.net/a"


@pytest.fixture(autouse=True)
def no_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)


@pytest.mark.parametrize(
    ("host", "endpoint"),
    [
        ("acme.dfs.core.windows.net", "https://acme.blob.core.windows.net"),
        ("acme.blob.core.windows.net", "https://acme.blob.core.windows.net"),
        ("acme.dfs.core.chinacloudapi.cn", "https://acme.blob.core.chinacloudapi.cn"),
    ],
)
def test_the_host_of_an_address_names_account_and_endpoint(host: str, endpoint: str) -> None:
    conf = azure_conf.load_conf(f"lake@{host}", "a")
    assert conf.store_settings == {"account_name": "acme", "endpoint": endpoint}
    assert (conf.bucket, conf.uri) == ("lake", f"abfs://lake@{host}/a")


def test_an_address_without_a_host_has_its_account_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(JobFileInvalid) as caught:
        azure_conf.load_conf("lake", "", scheme="az")
    assert "azure.account" in caught.value.hint
    set_in_file = azure_conf.load_conf("lake", "", {"account": "acme"}, scheme="az")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "other")
    set_outside = azure_conf.load_conf("lake", "", scheme="az")
    assert set_in_file.store_settings == {"account_name": "acme"}
    assert set_outside.store_settings == {"account_name": "other"}
    assert set_outside.uri == "az://lake"
    named = azure_conf.load_conf("lake@acme.dfs.core.windows.net", "")
    assert named.store_settings["account_name"] == "acme"


@pytest.mark.parametrize(
    ("authority", "options"),
    [
        ("lake@acme.example.org", {}),
        ("lake@acme", {}),
        ("lake@acme.dfs.core.windows.net", {"account": "other"}),
        ("lake@acme.dfs.core.windows.net", {"acl": "public"}),
    ],
)
def test_what_cannot_be_is_refused(authority: str, options: dict[str, str]) -> None:
    with pytest.raises(JobFileInvalid):
        azure_conf.load_conf(authority, "", options)


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"account_key": "k"}, "access_key"),
        ({"sas_token": "s"}, "sas_token"),
        ({"client_id": "i", "tenant_id": "t", "client_secret": "c"}, "client_secret"),
    ],
)
def test_a_credential_of_the_file_is_the_one_used(options: dict[str, str], kind: str) -> None:
    """Whatever the environment has, which the client reads too."""
    settings = azure_conf.load_conf("lake@acme.dfs.core.windows.net", "", options).store_settings
    assert settings["credential_type"] == kind
    assert set(options.values()) <= set(settings.values())
    none = azure_conf.load_conf("lake@acme.dfs.core.windows.net", "", {"client_id": "i"})
    assert "credential_type" not in none.store_settings


def test_a_key_of_a_service_account_travels_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    path.write_text('{"client_email": "a"}')
    address = lake_address("gs://lake/a", 60, {"service_account_file": str(path)})
    path.unlink()
    conf = gcs_conf.load_conf("lake", "a", dict(address.options))
    assert conf.store_settings == {"service_account_key": '{"client_email": "a"}'}
    assert "client_email" not in repr(conf) + repr(address)
    with pytest.raises(JobFileInvalid, match="cannot be read"):
        lake_address("gs://lake/a", 60, {"service_account_file": str(path)})


def test_an_endpoint_of_google_is_its_base() -> None:
    conf = gcs_conf.load_conf("lake", "", {"endpoint": "http://127.0.0.1:1"})
    assert conf.store_settings == {"base_url": "http://127.0.0.1:1"}
    assert conf.client_settings == {"allow_http": True}


@pytest.mark.parametrize(
    "section",
    [
        f"{{account_key: {SECRET}}}",
        f"{{sas_token: {SECRET}}}",
        f"{{client_id: i, tenant_id: t, client_secret: {SECRET}}}",
    ],
)
def test_no_secret_is_shown(section: str, tmp_path: Path) -> None:
    text = VALID.replace("file:///data/lake", ABFS) + f"azure: {section}\n"
    path = tmp_path / "clicks.yaml"
    path.write_text(text)
    job = load_job(path)
    address = lake_of(job)
    assert isinstance(address, LakeAddress)
    address.check()
    assert SECRET in dict(pickle.loads(pickle.dumps(address)).options).values()
    assert SECRET not in repr(address)
    assert SECRET not in mask_secrets(text).text
    assert SECRET not in json.dumps(show_settings(job))


@pytest.mark.parametrize(
    ("lake", "section"),
    [
        (ABFS, "azure: {account_key: a, sas_token: b}"),
        (ABFS, "azure: {client_secret: a}"),
        (ABFS, "azure: {client_secret: a, client_id: b}"),
        (ABFS, "azure: {endpoint: blob}"),
        (ABFS, "s3: {region: x}"),
        (ABFS, "gcs: {endpoint: 'http://h'}"),
        (ABFS, "hdfs: {conf_dir: /x}"),
        (ABFS, "sql: SELECT 1"),
        ("gs://lake/a", "azure: {account: a}"),
        ("file:///data/lake", "azure: {account: a}"),
    ],
)
def test_a_section_that_cannot_be_is_refused(lake: str, section: str, tmp_path: Path) -> None:
    path = tmp_path / "clicks.yaml"
    path.write_text(VALID.replace("file:///data/lake", lake) + f"{section}\n")
    with pytest.raises(JobFileInvalid):
        load_job(path)


def test_a_client_without_credentials_says_where_to_name_them() -> None:
    text = "Error performing token request: Error performing GET: status code: 403 Forbidden"
    with pytest.raises(StorageError) as caught, storage_errors("list", "log"):
        raise OSError(text)
    assert "name credentials in the job file" in caught.value.hint
