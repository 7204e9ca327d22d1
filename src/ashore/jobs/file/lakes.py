"""Where a lake is, and how each kind of storage is reached: keys of the job file.

What it is: the address of a lake, and the sections `hdfs` and `s3`.
What it promises: an address whose storage this release cannot open is refused with a reason.
"""

from typing import Annotated, Self

from pydantic import AfterValidator, Field, StrictBool, model_validator

from ashore.jobs.file.naming import NonEmpty, refuse_port
from ashore.jobs.file.section import Section
from ashore.jobs.file.unsupported import OTHER_LAKES, SUPPORTED_LAKES
from ashore.jobs.file.values import EnvText, FrozenMap, Shown, TextMap, ValueRefused, text_form

LAKE_SCHEMES = ("file", "hdfs", "s3", *OTHER_LAKES)

# What a variable stands for only the loader knows.
URI_FORM = text_form(r"^((file|hdfs|s3)://|[\s\S]*\$\{)")


def lake_uri(uri: EnvText) -> EnvText:
    """Return the address of a lake. Raises ValueRefused."""
    text = uri.reveal()
    scheme, separator, rest = text.partition("://")
    if not separator:
        shown = str(uri)
        instead = f"write file://{shown}" if shown.startswith("/") else "write file:///path"
        raise ValueRefused("a lake is a URI", instead)
    if scheme not in LAKE_SCHEMES:
        raise ValueRefused("the scheme of this lake is not supported", SUPPORTED_LAKES)
    refuse_port(rest.partition("/")[0])
    if scheme == "file" and not rest.startswith("/"):
        raise ValueRefused(
            "a local lake needs an absolute path", "write file:///path, three slashes"
        )
    if not rest.strip("/") or ".." in rest.split("/") or not text.isprintable():
        raise ValueRefused(
            "this path cannot be a lake", "write the path of a directory, without '..'"
        )
    return uri


class HdfsSection(Section):
    """How an HDFS is reached and written."""

    conf_dir: NonEmpty | None = Field(
        default=None,
        description="The directory of `core-site.xml` and `hdfs-site.xml` on the machine of the "
        "driver; executors receive their contents. Default: `HADOOP_CONF_DIR`.",
        examples=["/etc/hadoop/conf"],
    )
    options: TextMap = Field(
        default=FrozenMap[str](),
        description="Keys of Hadoop, such as `dfs.replication`; they override the files.",
    )


def _endpoint(url: str) -> str:
    scheme, _, host = url.partition("://")
    if scheme not in ("http", "https") or not host.strip("/") or "@" in host:
        raise ValueRefused("this is not the address of a server", "write https://host:port")
    refuse_port(host.rstrip("/"))
    return url


class S3Section(Section):
    """How a bucket is reached. What is not set comes from the environment, as for other tools."""

    endpoint: Annotated[NonEmpty, AfterValidator(_endpoint)] | None = Field(
        default=None,
        description="The address of a store that is not Amazon's; `http://` is not encrypted.",
        examples=["https://minio.example.org:9000"],
    )
    region: NonEmpty | None = Field(
        default=None, description="Default: `AWS_REGION`, else `us-east-1`."
    )
    path_style: StrictBool = Field(
        default=True,
        description="Whether the bucket is in the path of a request; false: in its host name.",
    )
    ca_file: NonEmpty | None = Field(
        default=None,
        description="A file of certificates (PEM) to trust besides those of the system, on the "
        "machine of the driver; executors receive its content.",
    )
    access_key_id: Annotated[EnvText, Shown("text")] | None = Field(
        default=None,
        description="Default: `AWS_ACCESS_KEY_ID`, a web identity, or the role of the machine.",
    )
    secret_access_key: Annotated[EnvText, Shown("text")] | None = Field(
        default=None,
        description="The secret of `access_key_id`. `${NAME}` is replaced from the environment.",
    )

    @model_validator(mode="after")
    def _are_both_set(self) -> Self:
        if (self.access_key_id is None) != (self.secret_access_key is None):
            raise ValueRefused("a key has an id and a secret", "set both keys, or neither")
        return self

    def to_options(self) -> dict[str, str]:
        """Return what a storage is opened with. Reveals the secret."""
        found = self.model_dump(exclude_none=True)
        texts = {key: each.reveal() for key, each in found.items() if isinstance(each, EnvText)}
        plain = {key: str(each) for key, each in found.items() if key not in texts}
        return {**plain, **texts, "path_style": "true" if self.path_style else "false"}
