"""The commands of `ashore token`: who may ask a server, and for what.

What it promises: a new token is printed once, to stdout, and kept by its digest. A change applies
within seconds, also where the server runs: it is not started again.
"""

from pathlib import Path
from typing import Annotated

import typer

from ashore.cli.options import AsJson, Debug, Directory, new_group
from ashore.cli.output import print_answer, reported_errors, say
from ashore.fleet.access.tokens import Grant, TokenFile, UserRole
from ashore.fleet.records.server_files import ServerFiles

State = Annotated[
    Path | None, typer.Option(help="Where the server keeps its state; by default .ashore in DIR.")
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="What audit lines call its owner.")]
Role = Annotated[UserRole, typer.Option(help="What it allows: to look, or everything.")]
OfJobs = Annotated[
    str | None,
    typer.Option(
        "--jobs",
        metavar="SELECTOR",
        help="The jobs that the role holds for, by their labels: `team=payments,tier!=test`. "
        "Default: all jobs, and the server itself.",
    ),
]

token = new_group("Tokens of a server: who may ask it, and for what.")


@token.command("list")
def token_list(
    directory: Directory, state: State = None, as_json: AsJson = False, debug: Debug = False
) -> None:
    """List the rules of tokens, users and groups; no token is shown."""
    with reported_errors(as_json=as_json, debug=debug):
        known = _file(directory, state).open()
        found = [
            *(
                _rule("token", each.name, one)
                for each in known.callers.values()
                for one in each.grants
            ),
            *(
                _rule(kind, name, each)
                for kind, rules in (("user", known.users), ("group", known.groups))
                for name, grants in rules.items()
                for each in grants
            ),
        ]
        lines = [" ".join(f"{key} {value}" for key, value in each.items()) for each in found]
        print_answer(lines or ["no token"], {"access": found}, as_json=as_json)


@token.command("add")
def token_add(  # noqa: PLR0913, PLR0917 - each parameter is an option of the command
    directory: Directory,
    name: Name,
    role: Role = UserRole.READ,
    jobs: OfJobs = None,
    state: State = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Make a token and print it: it is shown this once."""
    with reported_errors(as_json=as_json, debug=debug):
        made = _file(directory, state).add(name, role, jobs)
        document = {"name": name, **_role(role, jobs), "token": made}
        print_answer([made], document, as_json=as_json)
        if not as_json:
            say(f"token of {name}, role {role}: it is not shown again")


@token.command("allow")
def token_allow(  # noqa: PLR0913, PLR0917 - each parameter is an option of the command
    directory: Directory,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Of the user or the group, as the proxy says it.")
    ],
    role: Role = UserRole.READ,
    jobs: OfJobs = None,
    group: Annotated[bool, typer.Option("--group", help="Name a group, not a user.")] = False,
    of_token: Annotated[
        bool, typer.Option("--token", help="Name a token, which gets this role as well.")
    ] = False,
    state: State = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Give a role to a user or a group that a trusted proxy names, or another one to a token.

    It replaces the role that they have for the same --jobs.
    """
    if group and of_token:
        raise typer.BadParameter("--group excludes --token")
    kind = "group" if group else "token" if of_token else "user"
    with reported_errors(as_json=as_json, debug=debug):
        key = "name" if of_token else kind
        _file(directory, state).allow(key, name, role, jobs)
        found = {kind: name, **_role(role, jobs)}
        line = " ".join(f"{key} {value}" for key, value in found.items())
        print_answer([line], found, as_json=as_json)


@token.command("revoke")
def token_revoke(
    directory: Directory,
    name: Name,
    state: State = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Revoke a token with its logins, or the roles of a user or a group."""
    with reported_errors(as_json=as_json, debug=debug):
        _file(directory, state).revoke(name)
        print_answer([f"revoked {name}"], {"revoked": name}, as_json=as_json)


def _rule(kind: str, name: str, grant: Grant) -> dict[str, str]:
    return {kind: name, **_role(grant.role, str(grant.jobs) or None)}


def _role(role: UserRole, jobs: str | None) -> dict[str, str]:
    return {"role": str(role)} if jobs is None else {"role": str(role), "jobs": jobs}


def _file(directory: Path, state: Path | None) -> TokenFile:
    files = ServerFiles.of(directory, state)
    files.make()
    return TokenFile(files.tokens)
