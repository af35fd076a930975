"""The commands of `tilewright` for servers, with TVM's arguments."""

from __future__ import annotations

from typing import Annotated

import typer

from tilewright.cli.arguments import work_of

HostOption = Annotated[
    str, typer.Option("--host", metavar="HOST", help="The address of this machine for others.")
]
PortEndOption = Annotated[
    int | None, typer.Option("--port-end", metavar="N", help="The last port to try; else ten are.")
]
SilentOption = Annotated[bool, typer.Option("--silent", help="Print nothing.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("rpc-tracker")(rpc_tracker)
    app.command("rpc-server")(rpc_server)


def rpc_tracker(
    host: HostOption = "0.0.0.0",
    port: Annotated[
        int, typer.Option("--port", metavar="N", help="The port; the next one is for tuners.")
    ] = 9190,
    port_end: PortEndOption = None,
    silent: SilentOption = False,
) -> None:
    """Start a tracker: the head of a Ray cluster that servers join and tuners connect to."""
    work_of("rpc").track(host, _ports(port, port_end), silent=silent)


def rpc_server(
    tracker: Annotated[
        str, typer.Option("--tracker", metavar="HOST:PORT", help="The tracker to join.")
    ],
    key: Annotated[
        str, typer.Option("--key", metavar="KEY", help="What runners ask for this server by.")
    ] = "",
    host: HostOption = "0.0.0.0",
    port: Annotated[int, typer.Option("--port", metavar="N", help="The first port to try.")] = 9090,
    port_end: PortEndOption = None,
    silent: SilentOption = False,
    custom_addr: Annotated[
        str | None,
        typer.Option("--custom-addr", metavar="HOST", help="The same as --host."),
    ] = None,
    no_fork: Annotated[
        bool, typer.Option("--no-fork", help="Without effect: candidates have their own processes.")
    ] = False,
) -> None:
    """Start a server: a node that measures for all who ask the tracker for its key."""
    ports = _ports(port, port_end)
    work_of("rpc").serve(tracker, key, custom_addr or host, ports, silent=silent)


def _ports(first: int, last: int | None) -> range:
    return range(first, first + 10 if last is None else last + 1)
