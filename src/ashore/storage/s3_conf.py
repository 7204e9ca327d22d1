"""The configuration of a client of S3: keys that are handed in, and the environment's credentials.

What it is: from `s3://BUCKET/path` and options to the settings of a client.
What it promises: opens no connection. Secrets are in the options only, and in no message.
"""

import os
from collections.abc import Mapping

from ashore.errors import JobFileInvalid
from ashore.storage.bucket_conf import (
    CA,
    CA_FILE,
    ENDPOINT,
    BucketConf,
    Settings,
    build_client_settings,
    build_uri,
    refuse_unknown,
    resolve_options,
)

REGION, PATH_STYLE = "region", "path_style"
KEY_ID, SECRET_KEY = "access_key_id", "secret_access_key"
OPTIONS = ENDPOINT, REGION, PATH_STYLE, CA_FILE, KEY_ID, SECRET_KEY
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


def load_conf(
    bucket: str, prefix: str, options: Mapping[str, str] | None = None, *, scheme: str = "s3"
) -> BucketConf:
    """Return the configuration of a bucket. Raises JobFileInvalid."""
    resolved = resolve_options(options or {})
    refuse_unknown(resolved, (*OPTIONS, CA), "S3")
    if KEY_ID not in resolved and _PROFILE in os.environ and _IN_ENVIRONMENT not in os.environ:
        raise JobFileInvalid(
            f"{_PROFILE} is set, but profiles are not supported",
            hint='run: eval "$(aws configure export-credentials --format env)"',
        )
    return BucketConf(
        store="s3",
        uri=build_uri(scheme, bucket, prefix),
        bucket=bucket,
        prefix=prefix,
        store_settings=_store_settings(bucket, resolved),
        client_settings=build_client_settings(resolved),
    )


def hadoop_settings(options: Mapping[str, str]) -> dict[str, str]:
    """Return settings of Hadoop's client S3A, which is Spark's, from resolved options.

    It has none for an authority of one's own: that goes into Java's trust store.
    """
    named = {_HADOOP[key]: options[key] for key in _HADOOP if key in options}
    keys = {} if KEY_ID in options else {f"{_S3A}aws.credentials.provider": _PROVIDERS}
    is_plain = "allow_http" in build_client_settings(options)
    return {
        # Checkpoints keep their addresses as the job file writes them.
        S3_CLIENT: "org.apache.hadoop.fs.s3a.S3AFileSystem",
        # One writer has a checkpoint, so a file needs no look at what is there before.
        f"{_S3A}performance.flags": "create, delete, mkdir",
        f"{_S3A}connection.ssl.enabled": str(not is_plain).lower(),
        f"{_S3A}path.style.access": options.get(PATH_STYLE, "true"),
        **keys,
        **named,
    }


def _store_settings(bucket: str, options: Mapping[str, str]) -> Settings:
    has_path = options.get(PATH_STYLE, "true") == "true"
    settings: dict[str, str | bool] = {**_CONDITIONS, "virtual_hosted_style_request": not has_path}
    settings.update({key: options[key] for key in (REGION, KEY_ID, SECRET_KEY) if key in options})
    endpoint = options.get(ENDPOINT)
    if endpoint is not None:
        scheme, _, host = endpoint.rstrip("/").partition("://")
        settings[ENDPOINT] = f"{scheme}://{host if has_path else f'{bucket}.{host}'}"
    return settings
