"""The configuration of a client of S3: keys that are handed in, and the environment's credentials.

What it is: from `s3://BUCKET/path` and options to the settings of a client.
What it promises: opens no connection. Secrets are in the options only, and in no message.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ashore.errors import JobFileInvalid

ENDPOINT, REGION, PATH_STYLE = "endpoint", "region", "path_style"
KEY_ID, SECRET_KEY = "access_key_id", "secret_access_key"
CA_FILE, CA = "ca_file", "ca"  # its path, and its content
OPTIONS = ENDPOINT, REGION, PATH_STYLE, CA_FILE, KEY_ID, SECRET_KEY
_HTTP = "http://"
# Conditions that the store checks on its side, so that of two writers one is refused.
_CONDITIONS = {"conditional_put": "etag", "copy_if_not_exists": "multipart"}
S3_CLIENT = "fs.s3.impl"  # the setting of Hadoop that names the client of s3://
_S3A = "fs.s3a."
_HADOOP = {
    ENDPOINT: f"{_S3A}endpoint",
    REGION: f"{_S3A}endpoint.region",
    KEY_ID: f"{_S3A}access.key",
    SECRET_KEY: f"{_S3A}secret.key",
}
# Where Ashore's own client looks too: S3A leaves out web identities.
_PROVIDERS = (
    "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider,"
    "software.amazon.awssdk.auth.credentials.WebIdentityTokenFileCredentialsProvider,"
    "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider"
)
_PROFILE, _IN_ENVIRONMENT = "AWS_PROFILE", "AWS_ACCESS_KEY_ID"


@dataclass(frozen=True, slots=True)
class S3Conf:
    """A bucket as a client sees it."""

    bucket: str
    prefix: str  # without a slash at its ends
    options: Mapping[str, str] = field(repr=False)

    @property
    def uri(self) -> str:
        """Return the address of the root."""
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")

    def store_settings(self) -> dict[str, str | bool]:
        """Return settings of the bucket; what they leave out comes from the environment."""
        has_path = self.options.get(PATH_STYLE, "true") == "true"
        settings: dict[str, str | bool] = {
            **_CONDITIONS,
            "virtual_hosted_style_request": not has_path,
        }
        settings.update(
            {key: self.options[key] for key in (REGION, KEY_ID, SECRET_KEY) if key in self.options}
        )
        endpoint = self.options.get(ENDPOINT)
        if endpoint is not None:
            scheme, _, host = endpoint.rstrip("/").partition("://")
            settings[ENDPOINT] = f"{scheme}://{host if has_path else f'{self.bucket}.{host}'}"
        return settings

    def hadoop_settings(self) -> dict[str, str]:
        """Return settings of Hadoop's client S3A, which is Spark's, for the same bucket.

        It has none for an authority of one's own: that goes into Java's trust store.
        """
        named = {_HADOOP[key]: self.options[key] for key in _HADOOP if key in self.options}
        keys = {} if KEY_ID in self.options else {f"{_S3A}aws.credentials.provider": _PROVIDERS}
        is_secure = not self.options.get(ENDPOINT, "").startswith(_HTTP)
        return {
            # Checkpoints keep their addresses as the job file writes them.
            S3_CLIENT: "org.apache.hadoop.fs.s3a.S3AFileSystem",
            # One writer has a checkpoint, so a file needs no look at what is there before.
            f"{_S3A}performance.flags": "create, delete, mkdir",
            f"{_S3A}connection.ssl.enabled": str(is_secure).lower(),
            f"{_S3A}path.style.access": self.options.get(PATH_STYLE, "true"),
            **keys,
            **named,
        }

    def client_settings(self) -> dict[str, str | bool]:
        """Return settings of connections."""
        settings: dict[str, str | bool] = {}
        if self.options.get(ENDPOINT, "").startswith(_HTTP):
            settings["allow_http"] = True
        if CA in self.options:
            settings["root_certificate"] = self.options[CA]
        return settings


def resolve_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return options that mean the same on a machine without these files. Raises JobFileInvalid."""
    resolved = {key: value for key, value in options.items() if key != CA_FILE}
    if CA_FILE in options:
        try:
            resolved[CA] = Path(options[CA_FILE]).read_text("ascii")
        except (OSError, ValueError) as error:
            raise JobFileInvalid(
                f"the file of certificates cannot be read: {error}", hint="correct `s3.ca_file`"
            ) from error
    return resolved


def load_conf(bucket: str, prefix: str, options: Mapping[str, str] | None = None) -> S3Conf:
    """Return the configuration of a bucket. Raises JobFileInvalid."""
    resolved = resolve_options(options or {})
    unknown = sorted(resolved.keys() - {*OPTIONS, CA})
    if unknown:
        raise JobFileInvalid(
            f"{unknown[0]!r} is not an option of S3", hint=f"the options are {', '.join(OPTIONS)}"
        )
    if KEY_ID not in resolved and _PROFILE in os.environ and _IN_ENVIRONMENT not in os.environ:
        raise JobFileInvalid(
            f"{_PROFILE} is set, but profiles are not supported",
            hint='run: eval "$(aws configure export-credentials --format env)"',
        )
    return S3Conf(bucket, prefix, resolved)
