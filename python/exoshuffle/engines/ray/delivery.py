"""Checks whether the workers of a cluster have this package, and sends it to workers that lack it.

Guarantee: workers that cannot run this program's tasks are found before there are any tasks. Where every node has this
version, nothing is sent. With its native module, which has symbols, the package has 116 MB. Compressing it takes 4 s,
and 26 MB travel to each node. Ray keeps it for ten minutes at least, so programs that follow do not send it again.

Ray sends one package to all nodes, also to nodes that join later, and prefers it to a package that is installed there.
The packages that it needs (``NEEDED``) must be installed on every node, since platforms may differ.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from exoshuffle.engines.ray.failures import first_line
from exoshuffle.errors import EngineError, ProtocolError
from exoshuffle.futures.engine import PROTOCOL
from exoshuffle.version import __version__

#: The packages that workers import beside this one.
NEEDED = ("cloudpickle", "duckdb", "psutil", "pyarrow")

_INSTALL = f"install exoshuffle {__version__} on every node"
_INIT = 'or begin with ray.init(runtime_env={"py_modules": [exoshuffle]})'


class Greeting(NamedTuple):
    """A worker's answer about itself.

    Attributes:
        node: The node of the worker.
        abi: Python's version and the platform, as in the names of native modules.
        missing: The packages of ``NEEDED`` that the worker lacks.
        version: The version of this package; empty if it cannot be imported.
        protocol: The protocol of this package, if it has this program's version; else 0.
        error: Why this package cannot be imported.
    """

    node: str
    abi: str
    missing: tuple[str, ...]
    version: str
    protocol: int
    error: str

    @property
    def lacks(self) -> str:
        """The reason why the worker cannot run this program's tasks; empty if it can."""
        if self.error:
            return f"the worker on node {self.node} cannot run exoshuffle ({self.error})"
        if self.version != __version__:
            return f"the worker on node {self.node} has exoshuffle {self.version}, this program has {__version__}"
        if self.protocol != PROTOCOL:
            return (
                f"the worker on node {self.node} has exoshuffle {self.version} with protocol {self.protocol}, "
                f"this program has protocol {PROTOCOL}"
            )
        return ""

    def check_deliverable(self) -> None:
        """Raises ``ProtocolError`` if the package of this program would be of no use to the worker."""
        if self.abi != _abi():
            raise ProtocolError(
                f"{self.lacks}, and this program's cannot be sent there: it is built for {_abi()}, not for "
                f"{self.abi}; {_INSTALL}"
            )
        if self.missing:
            raise ProtocolError(
                f"{self.lacks}, and to send it this program's would not do: {', '.join(self.missing)} "
                f"must be installed there too; {_INSTALL}"
            )


def is_needed(timeout_seconds: float) -> bool:
    """Whether some worker lacks this package, or has another version.

    Raises:
        ProtocolError: A worker does, and this program's package would not run there.
        EngineError: Workers do not answer.
    """
    lacking = [greeting for greeting in _greetings(timeout_seconds) if greeting.lacks]
    for greeting in lacking:
        greeting.check_deliverable()
    return bool(lacking)


def runtime_env() -> dict[str, object]:
    """Returns the option with which ``ray.init`` sends this package, with its native module, to all workers."""
    # With Python's cached files Ray would take it for another package.
    return {"py_modules": [str(Path(__file__).parents[2])], "excludes": ["__pycache__"]}


def check_workers(timeout_seconds: float, *, was_sent: bool = False) -> None:
    """Checks that workers have this package.

    Args:
        timeout_seconds: How long they may take to answer.
        was_sent: Whether it has been sent to them; for the message.

    Raises:
        ProtocolError: A worker lacks it.
        EngineError: A worker does not answer.
    """
    for greeting in _greetings(timeout_seconds):
        if greeting.lacks:
            remedy = f"; {_INSTALL}, {_INIT}"
            if was_sent:
                remedy = f", though this program has sent its own; {_INSTALL}"
            raise ProtocolError(greeting.lacks + remedy)


def _greetings(timeout_seconds: float) -> list[Greeting]:
    """Asks a worker of each node, and returns the answers."""
    nodes = [node for node in ray.nodes() if node["Alive"]]
    ask = ray.remote(_greeter())
    asked = [
        ask.options(
            num_cpus=0,
            max_retries=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False),
        ).remote(__version__, NEEDED)
        for node in nodes
    ]
    try:
        answers = ray.get(asked, timeout=timeout_seconds)
    except ray.exceptions.GetTimeoutError as error:
        raise EngineError(
            f"the workers of the cluster have not answered in {timeout_seconds:g} s; is it busy or broken?"
        ) from error
    except ray.exceptions.RayError as error:
        raise ProtocolError(
            f"the workers of the cluster cannot run exoshuffle ({first_line(error)}); {_INSTALL}"
        ) from error
    return [
        Greeting(node["NodeManagerAddress"], *answer)
        for node, answer in zip(nodes, answers, strict=True)
    ]


def _greeter() -> Callable[..., object]:
    """Returns the function that workers run to answer.

    It is no function of a module, so it travels by value, and workers need not have this module.
    """

    def greet(version: str, needed: tuple[str, ...]) -> tuple[object, ...]:
        import importlib
        import importlib.util
        import sysconfig

        abi = sysconfig.get_config_var("EXT_SUFFIX")
        missing = tuple(name for name in needed if importlib.util.find_spec(name) is None)
        try:
            found = importlib.import_module("exoshuffle").__version__
            if found != version:
                return abi, missing, found, 0, ""
            importlib.import_module("exoshuffle._native")
            importlib.import_module("exoshuffle.engines.ray.worker")
            protocol = importlib.import_module("exoshuffle.futures.engine").PROTOCOL
        except Exception as error:  # noqa: BLE001  whatever it is, the program has to name it
            return abi, missing, "", 0, f"{type(error).__name__}: {error}"
        return abi, missing, found, protocol, ""

    return greet


def _abi() -> str:
    suffix: str = sysconfig.get_config_var("EXT_SUFFIX")
    return suffix
