"""Which engine this program uses: ``init`` starts one, ``shutdown`` closes it.

Guarantee: one engine at a time; the first use starts the default one; it is closed at exit. Why import paths and not
imports: the futures layer lies below the engines, and ``import exoshuffle`` must stay light.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from exoshuffle.errors import OptionsError
from exoshuffle.futures.engine import Engine

_ENGINES = {
    "local": "exoshuffle.engines.local:LocalEngine",
    "ray": "exoshuffle.engines.ray:RayEngine",
}
#: What ``init`` calls the engines of this library.
ENGINE_NAMES = tuple(_ENGINES)

_lock = threading.Lock()
_engine: Engine | None = None


def init(
    engine: str | Engine = "local",
    *,
    memory_limit: int | str | None = None,
    spill_dirs: str | Sequence[str] | None = None,
    num_cpus: int | None = None,
    num_gpus: float = 0,
    resources: Mapping[str, float] | None = None,
    **engine_options: Any,
) -> Engine:
    """Starts the engine that ``remote``, datasets and the rest will use; closes the one before.

    Args:
        engine: ``"local"``, ``"ray"``, or an engine instance.
        memory_limit: Bytes, or a string such as ``"2GB"`` (decimal) or ``"2GiB"``, for the whole program: Python,
            libraries, blocks and tasks. Default: 70 % of the machine's (or the control group's) memory.
        spill_dirs: One or several directories for data that does not fit into memory. Default: the system's
            temporary directory.
        num_cpus: Tasks that run at once. Default: the CPUs that this process may use.
        num_gpus: Declared GPUs; they are counted, not looked for.
        resources: Further declared resources by name.
        **engine_options: Options that only this engine has; see its class (``LocalEngine``, ``RayEngine``).

    Returns:
        The engine.

    Raises:
        OptionsError: An option that is unknown, while the engine before goes on; or one that cannot work, for example a
            missing spill directory.
        MemoryLimitError: A limit below what the program needs to start.
    """
    global _engine
    options = {
        "memory_limit": memory_limit,
        "spill_dirs": spill_dirs,
        "num_cpus": num_cpus,
        "num_gpus": num_gpus,
        "resources": dict(resources or {}),
        **engine_options,
    }
    with _lock:
        start = _starter(engine, options) if isinstance(engine, str) else lambda: engine
        if _engine is not None:
            _engine.close()
            _engine = None
        _engine = start()
        return _engine


def adopt(engine: Engine) -> None:
    """Makes ``engine`` the one of this process, a worker, without owning it: engines call this, users do not."""
    global _engine
    _engine = engine


def _starter(name: str, options: dict[str, Any]) -> Callable[[], Engine]:
    """What starts an engine with these options, all of which it knows."""
    if name not in _ENGINES:
        raise OptionsError(f"unknown engine {name!r}; known are {', '.join(sorted(_ENGINES))}")
    module, _, attribute = _ENGINES[name].partition(":")
    cls = getattr(importlib.import_module(module), attribute)
    known = list(inspect.signature(cls).parameters)
    for option in options:
        if option not in known:
            raise OptionsError(
                f"unknown option {option!r} of engine {name!r}; known are {', '.join(known)}"
            )
    return functools.partial(cls, **options)


def current_engine() -> Engine:
    """The engine in use; starts the local one with its defaults if there is none."""
    engine = _engine
    return engine if engine is not None else init()


@atexit.register
def shutdown() -> None:
    """Closes the engine: tasks stop, blocks and spilled bytes are gone. Safe to call twice."""
    global _engine
    with _lock:
        engine, _engine = _engine, None
    if engine is not None:
        engine.close()
