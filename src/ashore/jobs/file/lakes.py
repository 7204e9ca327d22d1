"""Where a lake is, and how each kind of storage is reached: keys of the job file.

What it is: the address of a lake, and the sections `hdfs`, `s3`, `azure` and `gcs`.
What it promises: an address whose storage this release cannot open is refused with a reason.
"""

from typing import Annotated, Self

from pydantic import AfterValidator, Field, StrictBool, model_validator

from ashore.jobs.file.naming import NonEmpty, refuse_port
from ashore.jobs.file.section import Section
from ashore.jobs.file.unsupported import OTHER_LAKES, SUPPORTED_LAKES
from ashore.jobs.file.values import EnvText, FrozenMap, Shown, TextMap, ValueRefused, text_form
from ashore.storage.bucket_conf import BUCKET_SCHEMES

LAKE_SCHEMES = ("file", "hdfs", *BUCKET_SCHEMES, *OTHER_LAKES)

# What a variable stands for only the loader knows.
URI_FORM = text_form(rf"^((file|hdfs|{'|'.join(BUCKET_SCHEMES)})://|[\s\S]*\$\{{)")


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


_CA_FILE = Field(
    default=None,
    description="A file of certificates (PEM) to trust besides those of the system, on the "
    "machine of the driver; executors receive its content.",
)
_Endpoint = Annotated[NonEmpty, AfterValidator(_endpoint)]
_Secret = Annotated[EnvText, Shown("text")]


class BucketSection(Section):
    """How a bucket is reached. What is not set comes from the environment, as for other tools."""

    def to_options(self) -> dict[str, str]:
        """Return what a storage is opened with. Reveals secrets."""
        found = self.model_dump(exclude_none=True)
        return {
            key: each.reveal() if isinstance(each, EnvText) else str(each)
            for key, each in found.items()
        }


class S3Section(BucketSection):
    """How a bucket is reached. What is not set comes from the environment, as for other tools."""

    endpoint: _Endpoint | None = Field(
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
    ca_file: NonEmpty | None = _CA_FILE
    access_key_id: _Secret | None = Field(
        default=None,
        description="Default: `AWS_ACCESS_KEY_ID`, a web identity, or the role of the machine.",
    )
    secret_access_key: _Secret | None = Field(
        default=None,
        description="The secret of `access_key_id`. `${NAME}` is replaced from the environment.",
    )

    @model_validator(mode="after")
    def _are_both_set(self) -> Self:
        if (self.access_key_id is None) != (self.secret_access_key is None):
            raise ValueRefused("a key has an id and a secret", "set both keys, or neither")
        return self

    def to_options(self) -> dict[str, str]:
        """See BucketSection."""
        return {**super().to_options(), "path_style": "true" if self.path_style else "false"}


class AzureSection(BucketSection):
    """How a container is reached. What is not set comes from the environment, as for other tools.

    Without a credential here: the `AZURE_` variables of a key, a client secret, a workload identity
    or a SAS, else the managed identity of the machine; `client_id` selects a managed identity.
    """

    endpoint: _Endpoint | None = Field(
        default=None,
        description="The address of the blob service, where it is not the account's; "
        "`http://` is not encrypted.",
        examples=["http://127.0.0.1:10000/devstoreaccount1"],
    )
    account: NonEmpty | None = Field(
        default=None,
        description="The storage account of `az://container/path`. Default: "
        "`AZURE_STORAGE_ACCOUNT_NAME`.",
    )
    ca_file: NonEmpty | None = _CA_FILE
    account_key: _Secret | None = Field(
        default=None, description="A key of the account. `${NAME}` is replaced."
    )
    sas_token: _Secret | None = Field(
        default=None, description="A shared access signature. `${NAME}` is replaced."
    )
    tenant_id: NonEmpty | None = Field(default=None, description="The tenant of `client_id`.")
    client_id: NonEmpty | None = Field(
        default=None, description="An application, or a managed identity."
    )
    client_secret: _Secret | None = Field(
        default=None, description="The secret of the application. `${NAME}` is replaced."
    )

    @model_validator(mode="after")
    def _is_one_credential(self) -> Self:
        secrets = (self.account_key, self.sas_token, self.client_secret)
        if sum(each is not None for each in secrets) > 1:
            raise ValueRefused(
                "there is more than one credential",
                "set one of account_key, sas_token and client_secret",
            )
        if self.client_secret is not None and not (self.client_id and self.tenant_id):
            raise ValueRefused(
                "a client secret is of an application", "set client_id and tenant_id too"
            )
        return self


class GcsSection(BucketSection):
    """How a bucket of Google is reached.

    Without `service_account_file`: the application default credentials, which are
    `GOOGLE_APPLICATION_CREDENTIALS`, those of gcloud, or the service account of the machine.
    """

    endpoint: _Endpoint | None = Field(
        default=None,
        description="The address of the store, where it is not Google's public one; "
        "`http://` is not encrypted.",
    )
    ca_file: NonEmpty | None = _CA_FILE
    service_account_file: NonEmpty | None = Field(
        default=None,
        description="The key of a service account (JSON), on the machine of the driver; executors "
        "receive its content.",
    )
