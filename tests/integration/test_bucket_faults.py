"""One request of a call to a bucket meets a fault of the network or of the store."""

import time
import uuid
from collections.abc import Iterator

import pytest
from tests.azure import ACCOUNT, CONTAINER, Azure

from ashore.errors import AnswerUnknown, PathExists, PathMissing, StorageError
from ashore.storage import Storage, open_storage
from ashore.storage.azure_conf import load_conf
from ashore.storage.base import Staged
from ashore.storage.objects import PART_BYTES, ObjectStorage
from ashore_lab.services.ports import LOOPBACK
from ashore_lab.services.s3 import S3
from ashore_lab.testing import FakeClock
from ashore_lab.testing.bucket_proxy import LATE_S, BucketProxy, BucketRequest, Fault

FAULTS = [each for each in Fault if each not in (Fault.NONE, Fault.PENDING)]
CONTENT = {"small": b"rows", "large": b"x" * (PART_BYTES + 1)}


@pytest.fixture(params=["s3", "azure"])
def store(request: pytest.FixtureRequest) -> S3 | Azure:
    server: S3 | Azure = request.getfixturevalue(request.param)
    return server


@pytest.fixture
def proxy(store: S3 | Azure) -> Iterator[BucketProxy]:
    with BucketProxy(store.port) as proxy:
        yield proxy


@pytest.fixture
def storage(store: S3 | Azure, proxy: BucketProxy) -> Storage:
    options = store.client_options()
    direct = f"http://{LOOPBACK}:{store.port}"
    options["endpoint"] = options["endpoint"].replace(direct, proxy.endpoint)
    return open_storage(f"{store.uri}/faults/{uuid.uuid4().hex}", options=options)


def strike_once(proxy: BucketProxy, number: int, fault: Fault) -> None:
    """Let the fault strike the request that changes something as the `number`th from now."""
    seen: list[BucketRequest] = []

    def strike(request: BucketRequest) -> Fault:
        seen.extend([request] * request.is_change)
        return fault if request.is_change and len(seen) == number else Fault.NONE

    proxy.strike = strike


def count_changes(proxy: BucketProxy) -> int:
    return sum(each.is_change for each in proxy.requests)


@pytest.mark.parametrize("fault", FAULTS)
def test_create(storage: Storage, proxy: BucketProxy, fault: Fault) -> None:
    """Whatever is said, the name has the whole content, or nothing, and no other writer's."""
    strike_once(proxy, 1, fault)
    try:
        storage.create("log/1", b"entry")
    except PathExists:
        assert fault is Fault.REPEAT, "it is our own"
    except AnswerUnknown:
        assert fault in (Fault.LOSE, Fault.LATE)
        time.sleep(2 * LATE_S)
    assert storage.read("log/1") == b"entry"
    with pytest.raises(PathExists):
        storage.create("log/1", b"other")


@pytest.mark.thirds
@pytest.mark.parametrize("size", CONTENT)
@pytest.mark.parametrize("fault", FAULTS)
def test_publish(storage: Storage, proxy: BucketProxy, fault: Fault, size: str) -> None:
    """At each of its requests. It is repeated until an answer, and loses nothing on the way."""
    content, number = CONTENT[size], 0
    while True:
        number += 1
        writer = storage.open_write(f"staged/{number}")
        writer.write(content)
        writer.close()
        before = count_changes(proxy)
        strike_once(proxy, number, fault)
        for _ in range(5):
            try:
                storage.publish(Staged(f"staged/{number}"), f"final/{number}")
            except PathMissing:  # the delete was carried out
                break
            except PathExists:
                raise  # equal content is no conflict
            except StorageError:
                kept = (f"staged/{number}", f"final/{number}")
                found = [storage.read(each) for each in kept if storage.stat(each)]
                assert found in ([content], [content, content])
                time.sleep(2 * LATE_S if fault is Fault.LATE else 0)
            else:
                break
        assert storage.read(f"final/{number}") == content
        assert storage.stat(f"staged/{number}") is None
        if count_changes(proxy) - before < number:
            return  # it has fewer requests: all of them were struck


@pytest.mark.parametrize("store", ["azure"], indirect=True)
def test_a_copy_that_is_made_later(store: Azure, proxy: BucketProxy) -> None:
    """Azure says so by a status that the client does not return; until then its copy is empty."""
    root = f"faults/{uuid.uuid4().hex}"
    direct = open_storage(f"{store.uri}/{root}", options=store.client_options())
    options = {**store.client_options(), "endpoint": f"{proxy.endpoint}/{ACCOUNT}"}
    storage = ObjectStorage(load_conf(CONTAINER, root, options, scheme="az"), 30, FakeClock())

    def strike(request: BucketRequest) -> Fault:
        if request.kind != "copy":
            return Fault.NONE
        direct.create("final", b"")
        return Fault.PENDING

    storage.create("staged", b"rows")
    proxy.strike = strike
    with pytest.raises(AnswerUnknown, match="not copied yet"):
        storage.publish(Staged("staged"), "final")
    assert direct.read("staged") == b"rows"
