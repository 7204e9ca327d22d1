"""A mailbox in the lake, on a real HDFS: one NameNode alone, and the whole of it."""

from tests.contract.test_lake_mailbox import *  # noqa: F403  # the suite
from tests.integration.test_storage_contract_hdfs import storage  # noqa: F401 - the fixture
