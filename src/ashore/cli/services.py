"""The commands of `ashore services`."""

from collections.abc import Mapping
from typing import Annotated

import typer

from ashore.cli.options import AsJson, Debug, new_group
from ashore.cli.output import print_answer, print_json, print_table, reported_errors, say
from ashore_lab.services import registry

services = new_group("Development servers from jars.")


@services.command("up")
def services_up(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="kafka, hdfs, hive, s3, zookeeper, spark; default: kafka"),
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Start servers and print their addresses. They stay up until `down`."""
    with reported_errors(as_json=as_json, debug=debug):
        endpoints = registry.up(names or ["kafka"], progress=None if as_json else say)
        if as_json:
            print_json(endpoints)
            return
        found = registry.status()
        rows = [
            [name, endpoint_text(endpoint), ", ".join(map(str, found[name].pids))]
            for name, endpoint in endpoints.items()
        ]
        print_table("", {"service": "left", "address": "left", "pid": "left"}, rows)


@services.command("down")
def services_down(
    names: Annotated[list[str] | None, typer.Argument(help="Default: all.")] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Stop servers."""
    with reported_errors(as_json=as_json, debug=debug):
        stopped = registry.down(names or (), progress=None if as_json else say)
        print_answer(
            [f"stopped {', '.join(stopped) or 'nothing'}"], {"stopped": stopped}, as_json=as_json
        )


@services.command("control")
def services_control(
    name: Annotated[str, typer.Argument(help="A service with actions of its own: hdfs.")],
    action: Annotated[str, typer.Argument(help="show, switch, kill, freeze, black-hole ...")],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="Which one: the number of a NameNode, from 0.")
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Control a running service: switch, kill, freeze or cut off a NameNode."""
    with reported_errors(as_json=as_json, debug=debug):
        answer = registry.command(name, action, arguments or [])
        print_answer([f"{key}: {value}" for key, value in answer.items()], answer, as_json=as_json)


@services.command("status")
def services_status(as_json: AsJson = False, debug: Debug = False) -> None:
    """Show which servers are up."""
    with reported_errors(as_json=as_json, debug=debug):
        found = registry.status()
        if as_json:
            print_json({name: each.to_dict() for name, each in found.items()})
            return
        rows = [
            [name, str(each.state), endpoint_text(each.endpoint)] for name, each in found.items()
        ]
        print_table("", {"service": "left", "state": "left", "endpoint": "left"}, rows)


def endpoint_text(endpoint: Mapping[str, str]) -> str:
    """Return what clients need as a person reads it: the address alone, or names with values."""
    if len(endpoint) == 1:
        return next(iter(endpoint.values()))
    return ", ".join(f"{name}: {value}" for name, value in endpoint.items())
