"""Keeps the engine that this program uses: ``init`` starts one, ``shutdown`` closes it.

Guarantee: there is one engine at a time; the first use starts the default one; it is closed at exit. A process that was
forked from one with an engine has none. Until ``init`` is called there, uses of the engine raise an error, and nothing
of the parent's is closed. Why import paths and not imports: the futures layer lies below the engines, and ``import
exoshuffle`` must stay light.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import inspect
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, cast

from exoshuffle.arguments import check_flag
from exoshuffle.errors import ForkedEngineError, OptionsError, shown
from exoshuffle.futures import environment
from exoshuffle.futures.engine import Engine, running_engine
from exoshuffle.futures.environment import from_environment, named
from exoshuffle.futures.options import check_amounts
from exoshuffle.units import format_bytes, parse_bytes

if TYPE_CHECKING:
    from typing_extensions import Self

_ENGINES = {
    "local": "exoshuffle.engines.local:LocalEngine",
    "ray": "exoshuffle.engines.ray:RayEngine",
}
#: The names that ``init`` gives the engines of this library.
ENGINE_NAMES = tuple(_ENGINES)

_lock = threading.Lock()
_engine: Engine | None = None
#: The argument ``progress`` of ``init``.
_progress: bool | None = None
#: The process that has started the engine.
_process = os.getpid()
#: The process whose engine this one had when it was forked; None once it has called ``init`` or ``shutdown``.
_forked_from: int | None = None


def init(  # noqa: PLR0913  the options that all engines have
    engine: str | Engine = "local",
    *,
    memory_limit: int | str | None = None,
    spill_dirs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
    num_cpus: int | None = None,
    num_gpus: float = 0,
    resources: Mapping[str, float] | None = None,
    progress: bool | None = None,
    **engine_options: object,
) -> ScopedEngine:
    """Starts the engine that ``remote``, datasets and the rest will use; closes the previous one.

    ``with xs.init(...):`` closes it at the end of the block, also after an error. Options that are not given may come
    from the environment: ``EXOSHUFFLE_MEMORY_LIMIT``, ``EXOSHUFFLE_NUM_CPUS`` and ``EXOSHUFFLE_SPILL_DIRS``, which has
    paths with ``:`` between them.

    Args:
        engine: ``"local"``, ``"ray"``, or an engine instance.
        memory_limit: Bytes, or a string such as ``"2GB"`` (decimal) or ``"2GiB"``, for the whole program: Python,
            libraries, blocks and tasks. Default: 70 % of the machine's (or the control group's) memory.
        spill_dirs: One or several directories for data that does not fit into memory. Default: the system's
            temporary directory.
        num_cpus: Tasks that run at once. Default: the CPUs that this process may use.
        num_gpus: Declared GPUs; the engine counts them and does not look for hardware.
        resources: Further declared resources by name.
        progress: Whether results that take longer than a second show their progress: True for always, False for never.
            Default: on a terminal and in notebooks, unless ``EXOSHUFFLE_PROGRESS`` is ``1`` or ``0``.
        **engine_options: Options that only this engine has; see its class (``LocalEngine``, ``RayEngine``).

    Returns:
        The engine. An instance of your own works with ``with`` if its class derives from ``Scoped``.

    Raises:
        OptionsError: An unknown option, while the previous engine goes on; or one that cannot work, for example a
            missing spill directory.
        MemoryLimitError: A limit below what the program needs to start.
    """
    global _engine, _process, _forked_from, _progress
    if progress is not None:
        check_flag("progress", progress)
    if not isinstance(engine, str) and not hasattr(engine, "submit"):
        raise OptionsError(
            f"engine is {shown(engine)}; give {' or '.join(map(repr, sorted(_ENGINES)))}, or an engine instance"
        )
    if isinstance(engine, str) and engine not in _ENGINES and _is_size(engine):
        raise OptionsError(f"engine is {engine!r}, a size; write init(memory_limit={engine!r})")
    resources = {} if resources is None else resources
    check_amounts(resources, num_gpus=num_gpus)
    options = {
        "memory_limit": memory_limit,
        "spill_dirs": _as_text(spill_dirs),
        "num_cpus": num_cpus,
        "num_gpus": num_gpus,
        "resources": dict(resources),
        **engine_options,
    }
    found = from_environment(options) if isinstance(engine, str) else {}
    with _lock:
        start = _starter(engine, options | found) if isinstance(engine, str) else lambda: engine
        if _engine is not None:
            _engine.close()
            _engine = None
        try:
            _engine = start()
        except OptionsError as error:
            raise named(error, found) from error.__cause__
        _process, _forked_from, _progress = os.getpid(), None, progress
        return cast("ScopedEngine", _engine)


def _is_size(text: str) -> bool:
    try:
        return parse_bytes(text) > 0
    except OptionsError:
        return False


def progress_asked() -> bool | None:
    """Returns whether ``init``, or else the environment, asks for progress or for none; None if neither says it.

    Raises:
        OptionsError: See ``environment.progress_asked``.
    """
    return environment.progress_asked() if _progress is None else _progress


class Scoped:
    """An engine that ``with`` closes. A block within the program's own engine leaves the program without one."""

    num_cpus: int
    memory_limit: int

    def close(self) -> None:
        """See ``Engine``."""
        raise NotImplementedError

    def __repr__(self) -> str:
        limit = format_bytes(self.memory_limit)
        return f"{type(self).__name__}(memory_limit={limit!r}, num_cpus={self.num_cpus})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if cast("object", self) is _engine:
            shutdown()
        else:
            self.close()


class ScopedEngine(Engine, Protocol):
    """An engine that ``with`` closes, as ``init`` returns it."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def _as_text(
    spill_dirs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None,
) -> str | list[str] | None:
    """Returns one path as text, or a list of them; ``~`` is the home directory."""
    if spill_dirs is None:
        return None
    if isinstance(spill_dirs, str):
        return os.path.expanduser(spill_dirs)
    listed = [spill_dirs] if isinstance(spill_dirs, os.PathLike) else spill_dirs
    try:
        paths = [os.path.expanduser(os.fspath(path)) for path in listed]
    except TypeError:
        raise OptionsError(
            f"spill_dirs is {shown(spill_dirs)}; give a path, or a list of paths"
        ) from None
    if not paths:
        raise OptionsError(f"spill_dirs is {shown(spill_dirs)}; name a directory, or leave it out")
    return paths


def adopt(engine: Engine) -> None:
    """Makes ``engine`` this worker process's, which does not own it; engines call this, users do not."""
    global _engine, _process
    _engine, _process = engine, os.getpid()


def engine_named(name: str) -> Engine:
    """A new engine with its defaults, for the worker that is to ``adopt`` it."""
    return _starter(name, {})()


def _after_in_child() -> None:
    """Drops what this forked process cannot use: the engine, and a lock that a thread of the parent may have held."""
    global _engine, _forked_from, _lock
    _lock = threading.Lock()
    if _engine is not None:
        _engine, _forked_from = None, _process


os.register_at_fork(after_in_child=_after_in_child)


_ON_RAY = 'write engine="ray", which has it'
#: Options of Ray's ``init``, with what to write instead.
_ELSEWHERE = {
    "address": _ON_RAY,
    "object_store_memory": f"{_ON_RAY}, or memory_limit= for the whole program",
    "ignore_reinit_error": "init() again closes the engine before; leave it out",
    "local_mode": "write executor='thread' for tasks that should stay in this process",
    "runtime_env": "worker processes have the modules and environment of this program; leave it out",
    "include_dashboard": "there is no dashboard; progress=True shows what runs",
}


def _starter(name: str, options: dict[str, object]) -> Callable[[], Engine]:
    """Returns a function that starts an engine with these options; raises ``OptionsError`` for unknown ones."""
    if name not in _ENGINES:
        raise OptionsError(f"unknown engine {name!r}; known are {', '.join(sorted(_ENGINES))}")
    module, _, attribute = _ENGINES[name].partition(":")
    cls = getattr(importlib.import_module(module), attribute)
    known = list(inspect.signature(cls).parameters)
    for option in options:
        if option not in known:
            remedy = _ELSEWHERE.get(option, f"known are {', '.join(known)}")
            raise OptionsError(f"unknown option {option!r} of engine {name!r}; {remedy}")
    return functools.partial(cls, **options)


def current_engine() -> Engine:
    """Returns the engine in use; starts the local one with its defaults if there is none.

    Raises:
        ForkedEngineError: This process was forked from one that has an engine, and has not called ``init``.
    """
    engine = _engine
    if engine is None and _forked_from is not None:
        raise ForkedEngineError.of(_forked_from)
    return engine if engine is not None else init()


def engine_in_use() -> Engine | None:
    """Returns the engine that runs this task, or else the program's, or None if there is none yet; starts nothing."""
    return running_engine() or _engine


def shutdown() -> None:
    """Closes the engine: tasks stop, blocks and spilled bytes are gone. Safe to call twice, and in a forked child."""
    global _engine, _forked_from
    with _lock:
        engine, _engine, _forked_from = _engine, None, None
    if engine is not None:
        engine.close()


@atexit.register
def _shutdown_at_exit() -> None:
    """Closes the engine; a program that Ctrl-C has ended still ends by that signal, which a shell shows as 130.

    Python forgets the interrupt when any thread runs text afterwards, as imports and new dataclasses do, and exits
    with 1. It sees the interrupt again in text of our own. Sessions at a prompt go on after an interrupt.
    """
    shutdown()
    if getattr(sys, "last_type", None) is KeyboardInterrupt and not hasattr(sys, "ps1"):
        with contextlib.suppress(KeyboardInterrupt):
            exec("raise KeyboardInterrupt")  # noqa: S102  nothing but running text is noted
