"""The configuration of a client of Azure's Blob Storage: an account, a container, credentials.

What it is: from `abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/path`, or `az://CONTAINER/path`, and
options to the settings of a client.
What it promises: opens no connection. Secrets are in the options only, and in no message. A
credential of the job file is the one that is used, whatever the environment has.
"""

import os
from collections.abc import Mapping

from ashore.errors import JobFileInvalid
from ashore.storage.bucket_conf import (
    CA,
    CA_FILE,
    ENDPOINT,
    BucketConf,
    build_client_settings,
    build_uri,
    refuse_unknown,
    resolve_options,
)

ACCOUNT = "account"
ACCOUNT_KEY, SAS_TOKEN, CLIENT_SECRET = "account_key", "sas_token", "client_secret"
TENANT_ID, CLIENT_ID = "tenant_id", "client_id"
OPTIONS = (
    ENDPOINT,
    ACCOUNT,
    CA_FILE,
    ACCOUNT_KEY,
    SAS_TOKEN,
    TENANT_ID,
    CLIENT_ID,
    CLIENT_SECRET,
)
# By the option of a secret, the kind of the credential, which keeps others out of its way.
_CREDENTIALS = {ACCOUNT_KEY: "access_key", SAS_TOKEN: "sas_token", CLIENT_SECRET: "client_secret"}
_NAMES = {ENDPOINT: ENDPOINT, SAS_TOKEN: "sas_key"}
_NAMES |= {key: key for key in (ACCOUNT_KEY, TENANT_ID, CLIENT_ID, CLIENT_SECRET)}
_IN_ENVIRONMENT = "AZURE_STORAGE_ACCOUNT_NAME"


def load_conf(
    authority: str,
    prefix: str,
    options: Mapping[str, str] | None = None,
    *,
    scheme: str = "abfs",
) -> BucketConf:
    """Return the configuration of a container. Raises JobFileInvalid."""
    resolved = resolve_options(options or {})
    refuse_unknown(resolved, (*OPTIONS, CA), "Azure")
    container, _, host = authority.partition("@")
    uri = build_uri(scheme, authority, prefix)
    settings: dict[str, str | bool] = {
        _NAMES[key]: value for key, value in resolved.items() if key in _NAMES
    }
    for key in _CREDENTIALS.keys() & resolved.keys():
        settings["credential_type"] = _CREDENTIALS[key]
    settings["account_name"] = _find_account(uri, host, resolved)
    if host:
        settings.setdefault(ENDPOINT, f"https://{host.replace('.dfs.', '.blob.', 1)}")
    return BucketConf(
        store="azure",
        uri=uri,
        bucket=container,
        prefix=prefix,
        store_settings=settings,
        client_settings=build_client_settings(resolved),
    )


def _find_account(uri: str, host: str, options: Mapping[str, str]) -> str:
    """Return the name of the account: from the address, the options or the environment."""
    named = options.get(ACCOUNT) or ("" if host else os.environ.get(_IN_ENVIRONMENT, ""))
    account, _, service = host.partition(".")
    if host and not service.startswith(("dfs.", "blob.")):
        raise JobFileInvalid(
            f"the lake {uri!r} has an unknown host",
            hint="write abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/path",
        )
    if named and account and named != account:
        raise JobFileInvalid(
            f"the lake {uri!r} is in the account {account}, but `azure.account` is {named}",
            hint="remove `azure.account`",
        )
    if not named and not account:
        raise JobFileInvalid(
            f"the account of the lake {uri!r} is not known",
            hint="write abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/path, or set `azure.account`",
        )
    return named or account
