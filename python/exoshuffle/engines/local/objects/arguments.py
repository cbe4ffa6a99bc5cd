"""The references among a task's arguments: the objects behind them, what they need from the store, and their values.

Guarantee: nothing here costs more than the number of arguments, plus the slices of the argument that is being resolved.
A shared sequence of M objects counts as one until it is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from exoshuffle.engines.local.objects.state import Bundle, ObjectState
from exoshuffle.engines.local.objects.task import Task
from exoshuffle.errors import ClosedError
from exoshuffle.futures.refs import Column, Ref, Refs, SliceRef

#: An object, and which of its slices is wanted: all (None), one, or some in a row.
Wanted = tuple[ObjectState, "int | range | None"]


def state_of(ref: Ref) -> ObjectState:
    """Returns the object behind a reference.

    Raises:
        ClosedError: It is one of an engine of another kind, such as Ray's.
    """
    found: object = ref._object
    if not isinstance(found, ObjectState):
        raise ClosedError(f"{found!r} belongs to an engine that was closed; make it again")
    return found


def sourced(state: ObjectState, index: int | range | None) -> Wanted:
    """Returns where the value of an object, or of some of its slices, is; see ``ObjectState.source``."""
    while (stored := state.stored) is not None and stored.same_as is not None:
        # An object that is the same as a slice has one slice. It is wanted as a value or in a list, or not at all.
        first = stored.same_as
        index = range(first, first + len(index)) if isinstance(index, range) else first
        state = stored.contained[0]._object  # type: ignore[assignment]
    return state, index


def targets(task: Task) -> Sequence[ObjectState | Bundle]:
    """Returns the objects whose values a task's arguments are; a shared sequence counts as one."""
    if not task.args and not task.kwargs:
        return ()
    found: list[ObjectState | Bundle] = []
    for arg in (*(task.args or ()), *(task.kwargs or {}).values()):
        if isinstance(arg, Ref):
            found.append(state_of(arg).source())
        elif isinstance(arg, SliceRef):
            found.append(state_of(arg.ref).source())
        elif isinstance(arg, Refs | Column):
            found.append(bundle(arg if isinstance(arg, Refs) else arg.refs))
    return found


def argument_error(task: Task) -> BaseException | None:
    """Returns the error of the first argument that has failed, if one has."""
    for target in targets(task):
        if target.error is not None:
            return target.error
    return None


def bundle(refs: Refs) -> Bundle:
    """Returns the engine's state of a sequence, and makes it first if needed."""
    if refs.engine_state is None:
        refs.engine_state = Bundle(tuple(map(state_of, refs)), refs.firsts)
    return cast("Bundle", refs.engine_state)


def wanted(arg: object) -> list[Wanted]:
    """Returns the objects, or slices of objects, that an argument stands for."""
    if isinstance(arg, Ref):
        return [sourced(state_of(arg), None)]
    if isinstance(arg, SliceRef):
        return [sourced(state_of(arg.ref), arg.index)]
    if isinstance(arg, Refs):
        return [sourced(state, None) for state in bundle(arg).objects]
    if isinstance(arg, Column):
        objects = bundle(arg.refs).objects
        return [sourced(*each) for each in zip(objects, arg.slices(), strict=True)]
    return []


def known_bytes(task: Task) -> int | None:
    """Returns the bytes of a task's arguments if looking at few objects tells; None if only the store would tell."""
    num_bytes = 0
    for arg in (*(task.args or ()), *(task.kwargs or {}).values()):
        if isinstance(arg, Refs | Column):
            return None
        for state, index in wanted(arg):
            stored = state.stored
            if stored is None or isinstance(index, range):
                return None
            size = 0 if stored.inline is not None else stored.num_bytes
            if size is None:
                return None
            num_bytes += size
    return num_bytes


def filled(arg: object, loaded: Iterator[object]) -> object:
    """Returns the argument as the function sees it; takes as many of ``loaded`` as ``wanted`` named."""
    if isinstance(arg, Ref | SliceRef):
        return next(loaded)
    if isinstance(arg, Refs):
        return [next(loaded) for _ in range(len(arg))]
    if isinstance(arg, Column):
        return [next(loaded) for _ in range(len(arg.refs))]
    return arg
