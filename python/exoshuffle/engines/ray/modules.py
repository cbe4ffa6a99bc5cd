"""Where workers look for modules: where the program does on a Ray that we started, else where its cluster has them.

The search path travels with each call, since programs and notebooks add to it as they run. Ray itself sends only the
folder of the script and the current one, and has the current one first.
"""

from __future__ import annotations

import os
import sys

import ray

#: The path that the latest call in this process brought, for the calls that it makes.
_path_here: tuple[str, ...] | None = None


def search_path() -> tuple[str, ...]:
    """Returns where this process looks for modules, as folders that mean the same in every process."""
    return tuple(folder or os.getcwd() for folder in sys.path)


def search_path_here() -> tuple[str, ...] | None:
    """Returns the path for tasks that are submitted by a task in this process; None where the cluster has its own."""
    return None if _path_here is None else search_path()


def look_there(path: tuple[str, ...] | None) -> None:
    """Has this worker look for modules where the program does; None leaves the worker's own path."""
    global _path_here
    _path_here = path
    if path is not None and tuple(sys.path) != path:
        sys.path[:] = path


def say_how_to_send(error: BaseException | None) -> None:
    """Adds to an error about a module that the cluster lacks how it gets there."""
    if isinstance(error, ModuleNotFoundError) and _path_here is None:
        error.msg = (
            f"{error.msg} on node {ray.util.get_node_ip_address()} of the cluster; install it on every node, or "
            'begin with ray.init(runtime_env={"working_dir": "."}), or "py_modules" in its place, which Ray sends there'
        )
        error.args = (error.msg, *error.args[1:])
