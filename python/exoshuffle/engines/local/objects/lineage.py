"""Remembers arguments of a finished task without keeping their objects alive, and gives them back."""

from __future__ import annotations

from exoshuffle.engines.local.objects.calls import StoredArgument
from exoshuffle.engines.local.objects.state import Bundle, ObjectState
from exoshuffle.futures.refs import Column, Ref, Refs, SliceRef


class _Described:
    """A reference among the arguments of a finished task: it names objects without keeping their bytes."""

    __slots__ = ("index", "kind", "target")

    def __init__(self, kind: type, target: object, index: int | range = -1) -> None:
        self.kind = kind
        #: An ``ObjectState``, or the ``Bundle`` of a sequence.
        self.target = target
        self.index = index


def describe(arg: object) -> object:
    """Returns an argument without handles: a description of a reference, anything else as it is."""
    if isinstance(arg, StoredArgument):
        return arg
    if isinstance(arg, Ref):
        return _Described(Ref, arg._object)
    if isinstance(arg, SliceRef):
        return _Described(SliceRef, arg.ref._object, arg.index)
    if isinstance(arg, Refs):
        return _Described(Refs, arg.engine_state)
    if isinstance(arg, Column):
        return _Described(Column, arg.refs.engine_state, arg.index)
    return arg


def revive(arg: object) -> object:
    """Returns the argument again, with handles of its own."""
    if not isinstance(arg, _Described):
        return arg
    if isinstance(arg.target, ObjectState):
        ref = Ref(arg.target)
        return ref if arg.kind is Ref else SliceRef(ref, arg.index)
    assert isinstance(arg.target, Bundle)
    refs = Refs((Ref(state) for state in arg.target.objects), arg.target.firsts)
    refs.engine_state = arg.target
    return refs if arg.kind is Refs else Column(refs, arg.index)  # type: ignore[arg-type]
