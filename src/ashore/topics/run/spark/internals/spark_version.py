"""Which Sparks are known from inside.

What it promises: a release that is not on the list is refused in words, before any internal call.
"""

from pyspark.sql import SparkSession

from ashore.errors import SparkUnknown

# A release joins the list when tests/spark/test_internals.py is green on it, not before.
KNOWN_SPARKS = ("4.2.0",)


def is_known(version: str) -> bool:
    """Return whether a release of Spark is one that Ashore knows from inside."""
    return version in KNOWN_SPARKS


def require_known_spark(spark: SparkSession) -> None:
    """Raise SparkUnknown unless this release of Spark is one that Ashore knows from inside."""
    refuse_unknown(spark.version)


def refuse_unknown(version: str) -> None:
    """Raise SparkUnknown unless `version` is on the list."""
    if is_known(version):
        return
    known = ", ".join(KNOWN_SPARKS)
    raise SparkUnknown(
        f"streaming SQL is not supported on Spark {version}: it uses internals of Spark, which "
        f"change between releases, and was tested with {known}",
        hint=f"run this job with Spark {known}",
        version=version,
    )
