"""The commands of `tilewright` for servers, with TVM's arguments."""

from __future__ import annotations

from typing import Annotated

import typer

from tilewright.cli.arguments import option, work_of

HostOption = Annotated[str, option("--host HOST", "The address of this machine for others.")]
PortEndOption = Annotated[int | None, option("--port-end N", "The last port to try; else ten are.")]
SilentOption = Annotated[bool, option("--silent", "Print nothing.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("rpc-tracker")(rpc_tracker)
    app.command("rpc-server")(rpc_server)


def rpc_tracker(
    host: HostOption = "0.0.0.0",
    port: Annotated[int, option("--port N", "The port; the next one is for tuners.")] = 9190,
    port_end: PortEndOption = None,
    silent: SilentOption = False,
) -> None:
    """Start a tracker: the head of a Ray cluster that servers join and tuners connect to."""
    work_of("rpc").track(host, _ports(port, port_end), silent=silent)


def rpc_server(
    tracker: Annotated[str, option("--tracker HOST:PORT", "The tracker to join.")],
    key: Annotated[str, option("--key KEY", "What runners ask for this server by.")] = "",
    host: HostOption = "0.0.0.0",
    port: Annotated[int, option("--port N", "The first port to try.")] = 9090,
    port_end: PortEndOption = None,
    silent: SilentOption = False,
    custom_addr: Annotated[str | None, option("--custom-addr HOST", "The same as --host.")] = None,
    no_fork: Annotated[
        bool, option("--no-fork", "Without effect: candidates have their own processes.")
    ] = False,
) -> None:
    """Start a server: a node that measures for all who ask the tracker for its key."""
    ports = _ports(port, port_end)
    work_of("rpc").serve(tracker, key, custom_addr or host, ports, silent=silent)


def _ports(first: int, last: int | None) -> range:
    return range(first, first + 10 if last is None else last + 1)
