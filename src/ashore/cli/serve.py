"""The command `ashore serve`."""

import os
from importlib import import_module
from ipaddress import ip_network
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from ashore.cli.options import Debug, Directory, parse_size
from ashore.cli.output import reported_errors, say
from ashore.errors import NotInstalled, RequestInvalid
from ashore.fleet.operate.webhook import WebhookAddress

if TYPE_CHECKING:
    from ashore.fleet.access.guard import TrustedProxy
    from ashore.fleet.server.serve import ServerSettings


def serve(  # noqa: PLR0913, PLR0917 - each parameter is an option of the command
    directory: Directory,
    host: Annotated[
        str, typer.Option(help="The address to listen on; by default this machine only.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0: any free port.")] = 8420,
    roots: Annotated[
        list[str] | None,
        typer.Option(
            "--root",
            metavar="DIR",
            help="A directory or URI that requests may name, besides DIR and the lakes of its "
            "jobs. May be given more than once.",
        ),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(help="Where the server keeps what it knows; by default .ashore in DIR."),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option("--tls-certificate", exists=True, help="With it, TLS.")
    ] = None,
    certificate_key: Annotated[
        Path | None, typer.Option("--tls-key", exists=True, help="The key of the certificate.")
    ] = None,
    no_token: Annotated[
        bool,
        typer.Option(
            "--no-token", help="Require no token: any client of the port may do everything."
        ),
    ] = False,
    hosts: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            metavar="NAME",
            help="Another host name of the server, besides addresses, `localhost`, --host and "
            "the name of this machine: without tokens, others are refused. May be given more than "
            "once.",
        ),
    ] = None,
    proxies: Annotated[
        list[str] | None,
        typer.Option(
            "--trusted-proxy",
            metavar="ADDRESS",
            help="An address or a network, as 10.0.0.0/24, whose X-Forwarded-For, "
            "X-Forwarded-Proto and user headers are believed. May be given more than once.",
        ),
    ] = None,
    user_header: Annotated[
        str, typer.Option(help="The header in which a trusted proxy names the user.")
    ] = "",
    groups_header: Annotated[
        str, typer.Option(help="The header with the groups of that user, separated by commas.")
    ] = "",
    jobs_max: Annotated[
        int | None, typer.Option("--max-jobs", min=1, help="How many jobs run at once.")
    ] = None,
    memory_max: Annotated[
        str | None,
        typer.Option("--max-memory", help="Memory limit for all jobs: `16GB`; further jobs wait."),
    ] = None,
    job_memory_max: Annotated[
        str | None,
        typer.Option("--max-job-memory", help="Memory limit per job; a job above it is restarted."),
    ] = None,
    index: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The database of the index, as postgresql+psycopg://...; by default SQLite's.",
        ),
    ] = None,
    webhook: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where events are posted: a job needs a decision, a sealed partition, lost files, "
            "a schema change. They are signed with $ASHORE_WEBHOOK_SECRET.",
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Run the jobs of a directory, and serve REST, metrics and pages over them."""
    limits = (jobs_max, _size(memory_max), _size(job_memory_max))
    tls = certificate, certificate_key
    with reported_errors(as_json=False, debug=debug):
        hook = None if webhook is None else _address(webhook)
        server = _load()
        where = (directory, state, host, port)
        settings = server.ServerSettings(
            *(*where, *tls, no_token),
            hosts=tuple(hosts or ()),
            proxy=_proxy(proxies or [], user_header, groups_header),
            roots=tuple(roots or ()),
            webhook=hook,
            index=index,
            limits=server.ServerLimits(*limits),
        )
        server.serve(settings, lambda url: _say_address(settings, url))


def _proxy(proxies: list[str], user_header: str, groups_header: str) -> "TrustedProxy | None":
    """Return whom the server believes about users. Raises RequestInvalid."""
    if not proxies:
        if user_header or groups_header:
            raise RequestInvalid(
                "anybody could send this header: it needs a proxy that is trusted",
                hint="say where it is: --trusted-proxy 127.0.0.1",
            )
        return None
    try:
        networks = tuple(ip_network(each) for each in proxies)
    except ValueError as error:
        raise RequestInvalid(
            f"--trusted-proxy: {error}", hint="an address or a network, as 10.0.0.0/24"
        ) from None
    made: TrustedProxy = import_module("ashore.fleet.access.guard").TrustedProxy(
        networks, user_header.lower(), groups_header.lower()
    )
    return made


def _address(url: str) -> WebhookAddress:
    """Return where events go. Raises RequestInvalid."""
    secret = os.environ.get("ASHORE_WEBHOOK_SECRET", "")
    if not url.startswith(("http://", "https://")):
        raise RequestInvalid(f"{url!r} is not an address", hint="write http://... or https://...")
    if not secret:
        raise RequestInvalid(
            "there is no secret to sign events with",
            hint="set $ASHORE_WEBHOOK_SECRET, and give it to the receiver",
        )
    return WebhookAddress(url, secret.encode())


def _load() -> ModuleType:
    """Return what runs a server. Raises NotInstalled."""
    try:
        return import_module("ashore.fleet.server.serve")
    except ModuleNotFoundError as error:
        raise NotInstalled(
            f"the package {error.name} is missing: `ashore serve` needs it",
            hint="pip install 'ashore[server]'",
        ) from error


def _say_address(settings: "ServerSettings", url: str) -> None:
    say(f"serving the jobs of {escape(str(settings.jobs))} at {url}")
    if settings.is_open:
        say("[yellow]warning[/] no token is needed: who reaches the port may do everything")
    else:
        say(f"tokens: {escape(str(settings.files.tokens))}")


def _size(text: str | None) -> int | None:
    return None if text is None else parse_size(text)
