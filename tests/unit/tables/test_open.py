"""From an address to a catalog."""

import sys

import pytest

from ashore.errors import JobFileInvalid, NotInstalled
from ashore.tables.catalog import NoCatalog, open_catalog


def test_no_address_is_no_catalog():
    assert isinstance(open_catalog(None), NoCatalog)


@pytest.mark.parametrize(
    ("uris", "described"),
    [
        ("thrift://metastore:9083", "thrift://metastore:9083"),
        ("thrift://metastore", "thrift://metastore:9083"),
        ("thrift://a:1/, thrift://b:2", "thrift://a:1,thrift://b:2"),
        ("thrift://[::1]:9083", "thrift://[::1]:9083"),
    ],
)
def test_addresses(uris: str, described: str):
    assert open_catalog(uris).describe() == described


@pytest.mark.parametrize(
    "uris",
    ["", "thrift://", "http://a:1", "a:9083", "thrift://a:x", "thrift://a:1,", "thrift://a/b"],
)
def test_what_is_no_address(uris: str):
    with pytest.raises(JobFileInvalid, match="is not the address"):
        open_catalog(uris)


def test_a_missing_package_is_named_with_the_line_to_type(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "thriftpy2", None)
    for name in [name for name in sys.modules if name.startswith("ashore.tables.catalog.hive")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(NotInstalled, match="needs the package thriftpy2") as caught:
        open_catalog("thrift://metastore:9083")
    assert "pip install 'ashore[hive]'" in caught.value.hint
