"""What every storage promises, on a real HDFS: one NameNode alone, and the whole of it."""

import uuid

import pytest
from tests.contract.test_storage_contract import *  # noqa: F403  # the suite

from ashore.storage import Storage, open_storage
from ashore.storage.hdfs import HdfsStorage
from ashore.storage.hdfs_conf import load_conf
from ashore_lab.services.hdfs import Hdfs


@pytest.fixture(params=["namenode", "nameservice"])
def storage(request: pytest.FixtureRequest, steady_hdfs: Hdfs) -> Storage:
    root = f"/contract/{uuid.uuid4().hex}"
    options = steady_hdfs.client_options()
    if request.param == "nameservice":
        return open_storage(f"{steady_hdfs.uri}{root}", options=options)
    return HdfsStorage(load_conf("ashore", options), f"nn{steady_hdfs.active()}", root)
