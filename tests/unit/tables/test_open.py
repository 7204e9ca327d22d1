"""From an address to a catalog."""

import sys
from pathlib import Path

import pytest

from ashore.base.clock import SystemClock
from ashore.errors import JobFileInvalid, NotInstalled
from ashore.storage.open import open_storage
from ashore.tables.catalog import NoCatalog, open_catalog
from ashore.tables.iceberg.catalogs import CatalogAddress
from ashore.tables.iceberg.iceberg_tables import IcebergTables
from ashore.tables.open_format import open_formats


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


@pytest.mark.parametrize(
    ("catalog", "described"),
    [
        ({"type": "glue"}, "Iceberg catalog ashore (glue)"),
        ({"type": "sql"}, "Iceberg catalog ashore (sql sqlite:///{lake}/iceberg.db)"),
        ({"type": "sql", "uri": "x://user:secret@host/db"}, "Iceberg catalog ashore (sql host/db)"),
    ],
)
def test_an_iceberg_catalog_is_named_by_its_own_address(
    catalog: dict[str, str], described: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    made = list[CatalogAddress]()
    monkeypatch.setattr(IcebergTables, "__init__", lambda _, address, *__: made.append(address))
    open_formats(open_storage(f"file://{tmp_path}"), SystemClock(), catalog, delta=False)
    assert [each.describe() for each in made] == [described.format(lake=tmp_path)]
