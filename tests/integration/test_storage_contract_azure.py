"""What every storage promises, on a real server of Azure's Blob Storage.

A test that stands here under the name of one of the suite of buckets replaces it.
"""

import uuid

import obstore
import pytest
from obstore.store import AzureStore
from tests.azure import CONTAINER, Azure
from tests.contract.test_storage_contract import names
from tests.integration.test_storage_contract_s3 import *  # noqa: F403  # the suite of buckets
from tests.refusals import refusals_of

from ashore.errors import AnswerUnknown, StorageError
from ashore.storage import Storage, open_storage
from ashore.storage.azure_conf import load_conf
from ashore.storage.base import Staged
from ashore.storage.objects import ObjectStorage
from ashore_lab.testing import FakeClock


@pytest.fixture
def root() -> str:
    return f"contract/{uuid.uuid4().hex}"


@pytest.fixture(params=["bare", "wrapped"])
def storage(request: pytest.FixtureRequest, azure: Azure, root: str) -> Storage:
    options = azure.client_options()
    if request.param == "wrapped":
        return open_storage(f"{azure.uri}/{root}", options=options)
    return ObjectStorage(load_conf(CONTAINER, root, options), timeout_s=30)


@pytest.fixture
def client(azure: Azure, root: str) -> AzureStore:
    """Another client, for what Ashore does not do."""
    options = azure.client_options()
    settings = dict(load_conf(CONTAINER, root, options).store_settings)
    return AzureStore(
        CONTAINER,
        prefix=root,
        config=settings,  # type: ignore[arg-type]  # a mapping of its keys
        client_options={"allow_http": True},
    )


def test_an_empty_object_is_a_copy_that_is_not_complete(azure: Azure, root: str) -> None:
    """Azure answers before it has copied: until then, or after a failed copy, it is empty."""
    clock = FakeClock()
    storage = ObjectStorage(load_conf(CONTAINER, root, azure.client_options()), 30, clock)
    storage.create("a", b"rows")
    storage.create("b", b"")
    with pytest.raises(AnswerUnknown, match="not copied yet"):
        storage.publish(Staged("a"), "b")
    assert storage.read("a") == b"rows", "the source is kept"
    storage.delete("b")
    storage.publish(Staged("a"), "b")
    assert storage.read("b") == b"rows"
    assert storage.stat("a") is None


def test_an_object_that_marks_a_directory_is_no_file(storage: Storage, client: AzureStore) -> None:
    """Accounts with a hierarchical namespace have such objects, and Hadoop makes them."""
    obstore.put(client, "d/e", b"", attributes={"hdi_isfolder": "true"})
    assert storage.stat("d/e") is None
    storage.create("d/e/a", b"x")
    found = storage.stat("d/e")
    assert found is not None
    assert found.is_directory
    assert names(storage, "d/e") == ["d/e/a"]


def test_a_shared_access_signature_is_enough(azure: Azure, root: str) -> None:
    options = azure.client_options()
    del options["account_key"]
    for expires in ("2020-01-01T00:00:00Z", "2100-01-01T00:00:00Z"):
        token = azure.sign_access(expires)
        storage = open_storage(f"{azure.uri}/{root}", options={**options, "sas_token": token})
        if expires < "2100":
            with pytest.raises(StorageError, match="403"):
                storage.create("a/x", b"rows")
    storage.create("a/x", b"rows")
    storage.publish(Staged("a/x"), "b/x")
    assert names(storage, "b") == ["b/x"]
    assert storage.read("b/x") == b"rows"
    storage.delete("b/x")
    assert storage.stat("b/x") is None


@pytest.mark.parametrize("of", ["container", "key"])
def test_what_is_wrong_is_said(azure: Azure, of: str) -> None:
    options = azure.client_options()
    container = "none-such" if of == "container" else CONTAINER
    if of == "key":
        options["account_key"] = "d3Jvbmcta2V5LXdyb25nLWtleQ=="
    storage = open_storage(f"az://{container}/x", options=options)
    for error in refusals_of(storage):
        assert options["account_key"] not in str(error)
        assert "RequestId" not in str(error)
        assert error.hint
