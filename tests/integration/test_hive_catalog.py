"""The Hive catalog on a real metastore, its tables read by Spark SQL with Hive support."""

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.unit.tables.contract import COLUMNS, CatalogContract, partition

from ashore.base.clock import SystemClock
from ashore.errors import CatalogError, CatalogUnreachable, SchemaConflict
from ashore.tables.catalog import (
    CatalogPartition,
    CatalogTable,
    PartitionSeal,
    open_catalog,
)
from ashore.tables.catalog.hive import HiveCatalog
from ashore.tables.catalog.hive_wire import Address, Connection, thrift
from ashore.tables.ddl import parse_ddl
from ashore_lab.services import proxy
from ashore_lab.services.hive import Hive
from ashore_lab.services.hive_locations import load_locations
from ashore_lab.services.ports import find_free_ports, is_listening
from ashore_lab.services.process import Command, ServerProcess


def port_of(hive: Hive) -> int:
    return int(hive.uri.rpartition(":")[2])


class Metastore:
    """What the metastore says, asked without the code under test."""

    def __init__(self, hive: Hive) -> None:
        self._clock = SystemClock()
        self._connection = Connection(
            Address("127.0.0.1", port_of(hive)), self._soon(), self._clock
        )

    def _soon(self) -> float:
        return self._clock.monotonic_s() + 60

    def ask(self, method: str, *arguments: object) -> Any:
        return self._connection.ask(method, arguments, self._soon())

    def table(self, table: CatalogTable) -> Any:
        return self.ask("get_table_req", thrift.GetTableRequest(table.database, table.name)).table

    def partitions(self, table: CatalogTable, *paths: str) -> dict[str, Any]:
        found = self.ask("get_partitions_by_names", table.database, table.name, list(paths))
        return {path: each for path in paths for each in found if path in each.sd.location}

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def catalog(hive: Hive) -> Iterator[HiveCatalog]:
    made = open_catalog(hive.uri, timeout_s=60)
    assert isinstance(made, HiveCatalog)
    yield made
    made.close()


@pytest.fixture
def metastore(hive: Hive) -> Iterator[Metastore]:
    made = Metastore(hive)
    yield made
    made.close()


@pytest.fixture
def table(tmp_path: Path) -> CatalogTable:
    database = f"ods_{uuid4().hex[:10]}"
    location = tmp_path / f"{database}.db" / "clicks"
    location.mkdir(parents=True)
    return CatalogTable(
        database=database,
        name="clicks",
        columns=parse_ddl(COLUMNS),
        partition_columns=parse_ddl("date STRING, country STRING"),
        location=location.as_uri(),
        format="parquet",
        job="clicks-job",
    )


class TestContract(CatalogContract):
    def seals_of(self, catalog, table):
        request = thrift.GetTableRequest(table.database, table.name)
        location = catalog._client.call("get_table_req", request).table.sd.location
        days = [f"date=2026-11-{day}/country=CN" for day in range(20, 23)]
        names = (table.database, table.name, days)
        found = {}
        for each in catalog._client.call("get_partitions_by_names", *names):
            version, rows = (
                each.parameters.get(k) for k in ("ashore.sealed.version", "ashore.rows")
            )
            path = each.sd.location.removeprefix(location + "/")
            found[path] = (int(version), int(rows)) if version else None
        return found


# --- what the metastore holds --------------------------------------------------------------------


def test_a_new_table_is_external_and_lies_on_the_lake(catalog, metastore, table):
    catalog.ensure_table(table)
    there = metastore.table(table)
    path = table.location.removeprefix("file://")
    assert there.tableType == "EXTERNAL_TABLE"
    assert there.sd.location == f"file:{path}"
    assert [(each.name, each.type) for each in there.sd.cols] == [
        ("id", "bigint"),
        ("name", "string"),
        ("amount", "decimal(10,2)"),
        ("tags", "array<struct<Key:string,n:int>>"),
    ]
    assert [(each.name, each.type) for each in there.partitionKeys] == [
        ("date", "string"),
        ("country", "string"),
    ]
    assert there.parameters["ashore.job"] == "clicks-job"
    database = metastore.ask("get_database", table.database)
    assert database.locationUri == f"file:{os.path.dirname(path)}"  # noqa: PTH120 - a URI's path
    assert not list(Path(path).iterdir()), "nothing is written to the lake"


@pytest.mark.parametrize("format_", ["parquet", "orc", "jsonl"])
def test_the_serde_is_the_formats(catalog, metastore, table, format_):
    catalog.ensure_table(replace(table, format=format_))
    serde = metastore.table(table).sd.serdeInfo.serializationLib
    assert {"parquet": "ParquetHiveSerDe", "orc": "OrcSerde", "jsonl": "JsonSerDe"}[
        format_
    ] in serde


def test_growth_keeps_what_others_have_written(catalog, metastore, table):
    catalog.ensure_table(table)
    there = metastore.table(table)
    there.owner = "data-team"
    there.parameters["comment"] = "clicks of the shop"
    there.sd.cols[1].comment = "of the user"
    context = thrift.EnvironmentContext({})
    names = (table.database, table.name)
    assert metastore.ask("alter_table_with_environment_context", *names, there, context) is None

    catalog.ensure_table(replace(table, columns=parse_ddl("a INT, " + COLUMNS), job="other"))
    there = metastore.table(table)
    assert [each.name for each in there.sd.cols] == ["id", "name", "amount", "tags", "a"]
    assert there.sd.cols[1].comment == "of the user"
    assert there.owner == "data-team"
    assert there.parameters["comment"] == "clicks of the shop"
    assert there.parameters["ashore.job"] == "other"
    assert '"comment":"of the user"' in there.parameters["spark.sql.sources.schema"]


def test_a_table_that_somebody_else_made_grows_without_sparks_properties(catalog, metastore, table):
    catalog.ensure_table(table)
    there = metastore.table(table)
    kept = {k: v for k, v in there.parameters.items() if not k.startswith("spark.")}
    there.parameters = kept
    names = (table.database, table.name)
    metastore.ask(
        "alter_table_with_environment_context", *names, there, thrift.EnvironmentContext({})
    )
    catalog.ensure_table(replace(table, columns=parse_ddl(COLUMNS + ", a INT")))
    there = metastore.table(table)
    assert there.sd.cols[-1].name == "a"
    assert not any(key.startswith("spark.") for key in there.parameters)


def test_a_managed_table_is_refused(catalog, metastore, table):
    catalog.ensure_table(table)
    there = metastore.table(table)
    there.tableType = "MANAGED_TABLE"
    there.parameters["EXTERNAL"] = "FALSE"
    names = (table.database, table.name)
    metastore.ask(
        "alter_table_with_environment_context", *names, there, thrift.EnvironmentContext({})
    )
    with pytest.raises(SchemaConflict, match="a MANAGED_TABLE in"):
        catalog.ensure_table(table)


def test_a_name_that_hive_refuses_is_an_error_that_names_it(catalog, table):
    with pytest.raises(CatalogError, match=r"ods-raw") as caught:
        catalog.ensure_table(replace(table, database="ods-raw"))
    assert not isinstance(caught.value, CatalogUnreachable)


@pytest.mark.parametrize(
    "columns", ["`a,b` INT", "s STRUCT<`a b`: INT>", "m MAP<STRING, STRUCT<`x:y`: INT>>"]
)
def test_a_name_that_hive_cannot_hold_is_refused_before(catalog, metastore, table, columns):
    with pytest.raises(SchemaConflict, match="cannot"):
        catalog.ensure_table(replace(table, columns=parse_ddl(columns)))
    assert metastore.ask("get_database", table.database).kind == "NoSuchObjectException"


# --- partitions ----------------------------------------------------------------------------------


def test_a_partition_has_the_tables_columns_in_the_tables_order(catalog, metastore, table):
    """Hive goes by position: the job file's order would mix columns up."""
    catalog.ensure_table(table)
    wider = replace(table, columns=parse_ddl("First INT, " + COLUMNS))
    catalog.add_partitions(table, [partition("2026-11-20")])
    catalog.ensure_table(wider)
    catalog.add_partitions(wider, [partition("2026-11-21")])
    grown = ["id", "name", "amount", "tags", "first"]
    old, new = metastore.partitions(
        table, "date=2026-11-20/country=CN", "date=2026-11-21/country=CN"
    ).values()
    assert [each.name for each in old.sd.cols] == grown[:4]
    assert [each.name for each in new.sd.cols] == grown

    catalog.mark_sealed(wider, [PartitionSeal(partition("2026-11-20"), 1, 5)])
    (old,) = metastore.partitions(table, "date=2026-11-20/country=CN").values()
    assert [each.name for each in old.sd.cols] == grown


def test_the_metastore_counts_files_when_a_partition_is_sealed_and_not_before(
    catalog, metastore, table
):
    catalog.ensure_table(table)
    seal = PartitionSeal(partition("2026-11-21"), 1, 5)
    directory = Path(table.location.removeprefix("file://"), seal.partition.path)
    directory.mkdir(parents=True)
    (directory / "a.parquet").write_bytes(b"12345")
    catalog.add_partitions(table, [seal.partition])
    (near,) = metastore.partitions(table, seal.partition.path).values()
    assert (near.parameters["numFiles"], near.parameters["totalSize"]) == ("0", "0")

    (directory / "b.parquet").write_bytes(b"67")
    catalog.mark_sealed(table, [seal])
    (sealed,) = metastore.partitions(table, seal.partition.path).values()
    assert (sealed.parameters["numFiles"], sealed.parameters["totalSize"]) == ("2", "7")


def test_a_partition_that_lies_elsewhere_is_named(catalog, metastore, table):
    catalog.ensure_table(table)
    good, moved = partition("2026-11-20"), partition("2026-11-21")
    catalog.add_partitions(table, [moved])
    (there,) = metastore.partitions(table, moved.path).values()
    there.sd.location += "-old"
    context = thrift.EnvironmentContext({"DO_NOT_UPDATE_STATS": "true"})
    names = (table.database, table.name)
    metastore.ask("alter_partitions_with_environment_context", *names, [there], context)
    seen = catalog.observe(table, [good, moved])
    assert seen.elsewhere == {moved: there.sd.location}
    for do in (
        lambda: catalog.add_partitions(table, [good, moved]),
        lambda: catalog.mark_sealed(table, [PartitionSeal(moved, 1, 1)]),
    ):
        with pytest.raises(CatalogError, match=r"date=2026-11-21/country=CN.*is registered at"):
            do()
    assert len(metastore.partitions(table, good.path)) == 1, "the others are registered"


@pytest.mark.long
def test_more_partitions_than_a_call_takes(catalog, table):
    catalog.ensure_table(table)
    some = [CatalogPartition(f"date=d{n}/country=CN") for n in range(250)]
    assert catalog.add_partitions(table, some[:120]) == 120
    assert catalog.add_partitions(table, some) == 130
    assert catalog.add_partitions(table, some) == 0


def test_readers_learn_where_each_partition_is(hive, catalog, table):
    name = table.full_name
    assert load_locations(hive.uri, name) == {}, "nobody knows the table yet"
    catalog.ensure_table(table)
    assert load_locations(hive.uri, name) == {}
    catalog.add_partitions(table, [CatalogPartition(f"date=d{n}/country=CN") for n in range(130)])
    found = load_locations(hive.uri, name)
    assert len(found) == 130
    assert found["d7/CN"] == f"{table.location}/date=d7/country=CN"


# --- at once -------------------------------------------------------------------------------------


def test_two_clients_do_the_same_at_once(hive, metastore, table):
    catalogs = [open_catalog(hive.uri, timeout_s=120) for _ in range(3)]
    some = [CatalogPartition(f"date=d{n}/country=CN") for n in range(150)]
    together = threading.Barrier(len(catalogs))

    def work(catalog):
        together.wait()
        change = catalog.ensure_table(table)
        together.wait()
        return change.is_created, catalog.add_partitions(table, some)

    with ThreadPoolExecutor(len(catalogs)) as pool:
        done = list(pool.map(work, catalogs))
    assert sum(created for created, _ in done) == 1
    assert sum(count for _, count in done) == len(some)
    assert len(metastore.partitions(table, *(each.path for each in some))) == len(some)
    for each in catalogs:
        each.close()


def test_threads_share_a_catalog(catalog, table):
    catalog.ensure_table(table)
    days = [partition(f"d{n}") for n in range(20)]
    with ThreadPoolExecutor(8) as pool:
        counts = list(pool.map(lambda day: catalog.add_partitions(table, [day]), days))
    assert counts == [1] * 20


# --- away ----------------------------------------------------------------------------------------


def test_a_killed_metastore_is_unreachable_at_once_and_comes_back(hive, catalog, table):
    catalog.ensure_table(table)
    hive.kill()
    try:
        began = time.monotonic()
        with pytest.raises(CatalogUnreachable, match="refused"):
            catalog.add_partitions(table, [partition("2026-11-21")])
        assert time.monotonic() - began < 5
    finally:
        hive.start()
    assert catalog.add_partitions(table, [partition("2026-11-21")]) == 1


@pytest.mark.long
def test_a_restart_between_two_calls_is_not_noticed(hive, catalog, table):
    catalog.ensure_table(table)
    hive.kill()
    hive.start()
    assert catalog.add_partitions(table, [partition("2026-11-21")]) == 1


def test_a_frozen_metastore_is_unreachable_in_time(hive, table):
    catalog = open_catalog(hive.uri, timeout_s=2)
    catalog.ensure_table(table)
    hive.process.freeze()
    try:
        for _ in range(2):  # on the connection that there was, then on a new one
            began = time.monotonic()
            with pytest.raises(CatalogUnreachable, match="no answer"):
                catalog.add_partitions(table, [partition("2026-11-21")])
            assert 1.5 < time.monotonic() - began < 3
    finally:
        hive.process.thaw()
    # The calls that nobody waited for were done, or are done now: either way they are repeatable.
    patient = open_catalog(hive.uri, timeout_s=60)
    assert patient.add_partitions(table, [partition("2026-11-21")]) in (0, 1)
    assert patient.add_partitions(table, [partition("2026-11-21")]) == 0
    patient.close()
    catalog.close()


@pytest.fixture
def control(hive: Hive, tmp_path: Path) -> Iterator[tuple[int, str]]:
    """Run a proxy before the metastore; return its control port and its address."""
    port, control_port = find_free_ports(2)
    process = ServerProcess("proxy", tmp_path / "proxy")
    arguments = proxy.command(control_port, [proxy.Route(port, port_of(hive))])
    process.start(Command("proxy", arguments, tmp_path / "proxy"), lambda _: is_listening(port))
    yield control_port, f"thrift://127.0.0.1:{port}"
    process.stop()


def test_every_answer_may_be_lost(control, metastore, table, monkeypatch):
    """The call was done, and is made again on a new connection."""
    control_port, uri = control
    catalog = open_catalog(uri, timeout_s=60)
    answered, lost = catalog._client.call, set()
    answered("get_database", "default")  # a new connection is not tried twice

    def call(method, *arguments, accept=()):
        proxy.set_mode(control_port, 0, proxy.Mode.DROP_ANSWER, answers=1)
        lost.add(method)
        return answered(method, *arguments, accept=accept)

    monkeypatch.setattr(catalog._client, "call", call)
    catalog.ensure_table(table)
    wider = replace(table, columns=parse_ddl(COLUMNS + ", a INT"))
    assert catalog.ensure_table(wider).added == ("a",)
    catalog.add_partitions(wider, [partition("2026-11-20"), partition("2026-11-21")])
    catalog.mark_sealed(wider, [PartitionSeal(partition("2026-11-20"), 1, 5)])
    catalog.add_partitions(wider, [partition("2026-11-22")])
    catalog.drop_partitions(wider, [partition("2026-11-22")])
    seen = catalog.observe(wider, [partition("2026-11-20")])
    assert seen is not None
    assert seen.partitions == {partition(day).values for day in ("2026-11-20", "2026-11-21")}

    # By the checkers of drills, and by the catalog of Iceberg, whose contract loses answers too.
    asked_by_others = {"get_partitions", "drop_table"}
    assert lost == set(thrift.ThriftHiveMetastore.thrift_services) - asked_by_others
    assert metastore.table(table).sd.cols[-1].name == "a"
    days = [f"date=2026-11-{day}/country=CN" for day in (20, 21)]
    there = metastore.partitions(table, *days)
    assert [each.parameters.get("ashore.rows") for each in there.values()] == ["5", None]
    assert metastore.partitions(table, "date=2026-11-22/country=CN") == {}
    catalog.close()


def test_a_host_that_is_gone_is_unreachable_in_time(control, table):
    control_port, uri = control
    catalog = open_catalog(uri, timeout_s=1.5)
    catalog.ensure_table(table)
    proxy.set_mode(control_port, 0, proxy.Mode.BLACK_HOLE)
    for _ in range(2):
        began = time.monotonic()
        with pytest.raises(CatalogUnreachable, match="no answer"):
            catalog.add_partitions(table, [partition("2026-11-21")])
        assert time.monotonic() - began < 2
    proxy.set_mode(control_port, 0, proxy.Mode.PASS)
    catalog.close()


def test_another_address_answers(hive, table):
    catalog = open_catalog(f"thrift://127.0.0.1:1,{hive.uri}", timeout_s=30)
    assert catalog.ensure_table(table).is_created
    catalog.close()
