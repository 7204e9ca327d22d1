"""The section `catalog`, as frozen models.

What it is: where the partitions of tables are registered, and where Iceberg tables are.
What it promises: addresses and properties may hold secrets, which are never shown.
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from ashore.base.suggest import nearest
from ashore.jobs.file.naming import NonEmpty, refuse_port
from ashore.jobs.file.options import OPTIONS_FORM, KafkaOptions
from ashore.jobs.file.section import Section
from ashore.jobs.file.values import EnvText, Shown, ValueRefused, text_form


def _hive_uri(uri: EnvText) -> EnvText:
    if not uri.reveal().startswith("thrift://"):
        raise ValueRefused("this is not the address of a metastore", "write thrift://host:9083")
    refuse_port(uri.reveal())
    return uri


class HiveSection(Section):
    """A Hive metastore."""

    uri: Annotated[
        EnvText,
        AfterValidator(_hive_uri),
        Shown("thrift://host:port"),
        text_form(r"^(thrift://|[\s\S]*\$\{)"),
    ] = Field(
        description="The metastore's address. `${NAME}` is replaced from the environment.",
        examples=["thrift://127.0.0.1:9083"],
    )
    strategy: Literal["near", "seal"] = Field(
        default="near",
        description="When a partition is registered: `near`, as soon as it has files; `seal`, "
        "once it is sealed there. Partitions that are never sealed are registered as with `near`.",
    )


class CatalogProperties(KafkaOptions):
    """Properties of pyiceberg, by its names. Shown as those of the Kafka client are."""

    __slots__ = ()

    @staticmethod
    def check_name(name: str) -> str:
        """Return the name of a property. Raises ValueRefused where it is not one to set."""
        if name in _OWNED:
            raise ValueRefused(f"{name} cannot be set here: {_OWNED[name]}", "remove it")
        return name


_OWNED = {
    "uri": "it is `catalog.iceberg.uri`",
    "type": "it is `catalog.iceberg.type`",
    "py-io-impl": "files are reached as the lake is",
}


class IcebergSection(Section):
    """An Iceberg catalog."""

    type: Literal["sql", "rest", "glue", "hive"] = Field(
        default="sql",
        description="What the catalog is: a database (SQLite, PostgreSQL), a REST catalog, Amazon "
        "Glue, or a Hive metastore that compares what a commit replaces (2.3.10, 4.0).",
    )
    uri: Annotated[EnvText, Shown("URI")] | None = Field(
        default=None,
        description="The address: `sqlite:////path/file.db`, `postgresql+psycopg://host/database`, "
        "`https://host:8181`, `thrift://host:9083`. `${NAME}` is replaced from the environment.",
        examples=["sqlite:////data/lake/iceberg.db"],
    )
    name: NonEmpty = Field(
        default="ashore",
        description="The catalog's name: in a database it is part of the key of each table.",
    )
    properties: Annotated[CatalogProperties, Shown("mapping of text to text"), OPTIONS_FORM] = (
        Field(
            default=CatalogProperties(),
            description="Further properties of pyiceberg, such as `warehouse` and `credential`. "
            "`${NAME}` is replaced from the environment and never shown.",
        )
    )


class CatalogSection(Section):
    """Where partitions are registered. `none` in the job file is a catalog without `hive`."""

    hive: HiveSection | None = Field(
        default=None,
        description="Register partitions in a Hive metastore.",
        examples=['{uri: "thrift://127.0.0.1:9083"}'],
    )
    iceberg: IcebergSection | None = Field(
        default=None,
        description="The catalog of tables with `format: iceberg`. Default: SQLite, in the file "
        "`iceberg.db` of a lake on a local disk.",
        examples=["{type: rest, uri: http://127.0.0.1:8181}"],
    )


def catalog_section(value: object) -> object:
    """Return a catalog as a mapping: `none` is an empty one. Raises ValueRefused."""
    if isinstance(value, str):
        if value == "none":
            return {}
        near = nearest(value, ("none", "hive", "iceberg"))
        instead = f"write {{{near}: {{uri: ...}}}}" if near in {"hive", "iceberg"} else "write none"
        raise ValueRefused("a catalog is none or a mapping", instead)
    return value
