"""The configuration of a client of Google's Cloud Storage.

What it is: from `gs://BUCKET/path` and options to the settings of a client.
What it promises: opens no connection. Secrets are in the options only, and in no message.
"""

from collections.abc import Mapping

from ashore.storage.bucket_conf import (
    ACCOUNT_FILE,
    CA,
    CA_FILE,
    ENDPOINT,
    SERVICE_ACCOUNT,
    BucketConf,
    build_client_settings,
    build_uri,
    refuse_unknown,
    resolve_options,
)

OPTIONS = ENDPOINT, CA_FILE, ACCOUNT_FILE
_NAMES = {ENDPOINT: "base_url", SERVICE_ACCOUNT: SERVICE_ACCOUNT}


def load_conf(
    bucket: str, prefix: str, options: Mapping[str, str] | None = None, *, scheme: str = "gs"
) -> BucketConf:
    """Return the configuration of a bucket. Raises JobFileInvalid."""
    resolved = resolve_options(options or {})
    refuse_unknown(resolved, (*OPTIONS, CA, SERVICE_ACCOUNT), "Google's store")
    return BucketConf(
        store="gcs",
        uri=build_uri(scheme, bucket, prefix),
        bucket=bucket,
        prefix=prefix,
        store_settings={_NAMES[key]: value for key, value in resolved.items() if key in _NAMES},
        client_settings=build_client_settings(resolved),
    )
