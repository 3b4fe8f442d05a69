"""`epoka dashboard`: the web page of a cluster that another process runs, and the page of `epoka up`."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from epoka.cli.finding import the_file, the_folder
from epoka.cli.output import EXIT_GOOD, EXIT_USAGE, Failed, say, say_json
from epoka.cluster.errors import BadCluster, ClusterError

if TYPE_CHECKING:
    from epoka.dashboard.observing import NodeStates
    from epoka.dashboard.serving import Dashboard


def run_dashboard(data: Path | None, port: int, allow_faults: bool, json: bool) -> int:
    folder = the_folder(data)
    the_file(folder)
    check_installed()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with started(folder, port, allow_faults) as dashboard:
        if json:
            say_json({"ready": True, "dashboard": dashboard.url, "data": str(folder)})
        else:
            say(f"ready dashboard={dashboard.url}")
        stop.wait()
    return EXIT_GOOD


def check_installed() -> None:
    """One clear line when the extra is missing."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise Failed(
            f"the dashboard needs {error.name}; install it with: pip install 'epoka[dashboard]'", EXIT_USAGE
        ) from error


def started(folder: Path, port: int, allow_faults: bool, nodes: NodeStates | None = None) -> Dashboard:
    """A dashboard that serves; Failed says why there is none."""
    from epoka.dashboard.serving import Dashboard

    try:
        return Dashboard(folder, port, allow_faults=allow_faults, nodes=nodes)
    except BadCluster as error:
        raise Failed(str(error), EXIT_USAGE) from error
    except ClusterError as error:
        raise Failed(str(error)) from error
