"""What every storage promises, on versitygw: another server of S3, so in `make test-all` only."""

import uuid
from collections.abc import Iterator

import pytest
from tests.integration.test_storage_contract_s3 import *  # noqa: F403  # the suite of buckets
from tests.versity import Versity

from ashore.storage import Storage, open_storage
from ashore.storage.objects import ObjectStorage
from ashore.storage.s3_conf import load_conf
from ashore_lab.services.s3 import BUCKET, S3

# The same suite runs on s3proxy in `make test`.
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with Versity(tmp_path_factory.mktemp("versity")) as server:
        yield server


@pytest.fixture(params=["bare", "wrapped"])
def storage(request: pytest.FixtureRequest, s3: S3) -> Storage:
    root, options = f"contract/{uuid.uuid4().hex}", s3.client_options()
    if request.param == "wrapped":
        return open_storage(f"{s3.uri}/{root}", options=options)
    return ObjectStorage(load_conf(BUCKET, root, options), timeout_s=30)
