"""What a client of an object store is opened with, whichever store it is.

What it is: a bucket with the settings of its client, and what the options of all stores share.
What it promises: opens no connection. Secrets are in the settings only, and in no message.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ashore.errors import JobFileInvalid

# By the scheme of an address, the section of the job file that has the options of its store.
_SECTIONS = {"s3": "s3", "abfs": "azure", "abfss": "azure", "az": "azure", "gs": "gcs"}
BUCKET_SCHEMES = tuple(_SECTIONS)
ENDPOINT = "endpoint"
CA_FILE, CA = "ca_file", "ca"  # its path, and its content
ACCOUNT_FILE, SERVICE_ACCOUNT = "service_account_file", "service_account_key"  # likewise
_CONTENTS = {CA_FILE: CA, ACCOUNT_FILE: SERVICE_ACCOUNT}
_HTTP = "http://"

Settings = Mapping[str, str | bool]


@dataclass(frozen=True, slots=True)
class BucketConf:
    """A bucket, or a container, as a client sees it."""

    store: str  # as `find_store` calls it
    uri: str  # of the root, without a slash at its end
    bucket: str
    prefix: str  # without a slash at its ends
    store_settings: Settings = field(repr=False)  # what they leave out: from the environment
    client_settings: Settings = field(repr=False)  # of connections


def find_store(uri: str) -> str | None:
    """Return which store an address is in, by the name of its section; None: in no bucket."""
    scheme, separator, _ = uri.partition("://")
    return _SECTIONS.get(scheme) if separator else None


def build_uri(scheme: str, authority: str, prefix: str) -> str:
    """Return the address of a root."""
    return f"{scheme}://{authority}/{prefix}".rstrip("/")


def build_client_settings(options: Mapping[str, str]) -> Settings:
    """Return settings of connections from resolved options."""
    settings: dict[str, str | bool] = {}
    if options.get(ENDPOINT, "").startswith(_HTTP):
        settings["allow_http"] = True
    if CA in options:
        settings["root_certificate"] = options[CA]
    return settings


def resolve_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return options that mean the same on a machine without these files. Raises JobFileInvalid."""
    resolved = {key: value for key, value in options.items() if key not in _CONTENTS}
    for key in _CONTENTS.keys() & options.keys():
        try:
            resolved[_CONTENTS[key]] = Path(options[key]).read_text("utf-8")
        except (OSError, ValueError) as error:
            raise JobFileInvalid(
                f"a file cannot be read: {error}", hint=f"correct `{key}` in the job file"
            ) from error
    return resolved


def refuse_unknown(options: Mapping[str, str], known: Collection[str], store: str) -> None:
    """Raise JobFileInvalid for an option that the store has not."""
    unknown = sorted(options.keys() - {*known})
    if unknown:
        raise JobFileInvalid(
            f"{unknown[0]!r} is not an option of {store}",
            hint=f"the options are {', '.join(known)}",
        )
