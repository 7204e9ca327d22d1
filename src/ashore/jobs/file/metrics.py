"""The section `metrics` of a job file."""

from typing import Annotated

from pydantic import AfterValidator, Field, StrictInt

from ashore.jobs.file.naming import NonEmpty
from ashore.jobs.file.section import Section
from ashore.jobs.file.values import PositiveMs, ValueRefused


def _metrics_file(name: str) -> str:
    if not name.endswith(".prom"):
        raise ValueRefused("the node exporter reads only files named *.prom", f"write {name}.prom")
    return name


def has_a_place(metrics: "Metrics") -> "Metrics":
    """Return the section. Raises ValueRefused where it names neither a port nor a file."""
    if metrics.port is None and metrics.file is None:
        raise ValueRefused("expected `port` or `file`", "write {port: 9464} or {file: /path.prom}")
    return metrics


class Metrics(Section):
    """Where Prometheus finds the metrics of a job: at a port, in a file, or both."""

    port: Annotated[StrictInt, Field(ge=1, le=65_535)] | None = Field(
        default=None,
        description="The port of `ashore run` that serves them as `/metrics`. Each job on a "
        "machine needs its own port.",
        examples=["9464"],
    )
    host: NonEmpty = Field(
        default="0.0.0.0",  # noqa: S104 - as exporters do: Prometheus is on another machine
        description="The address that the port is opened on; `127.0.0.1` for this machine only. "
        "Anyone who can reach it can read the names of tables and how many records they have.",
    )
    file: Annotated[NonEmpty, AfterValidator(_metrics_file)] | None = Field(
        default=None,
        description="A file for the textfile collector of the node exporter. Its name ends with "
        "`.prom`.",
        examples=["/var/lib/node_exporter/textfile/clicks.prom"],
    )
    every_ms: PositiveMs = Field(
        default=15_000, alias="every", description="How often the file is written."
    )
