"""The arguments of a task: values at rest, and references, which are values before the task starts.

Guarantee: M objects that R tasks share (``Refs``, ``Column``) are looked at once, not once for each task.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence

from exoshuffle.engines.sim.objects.state import Handle, Part, State, Status
from exoshuffle.engines.sim.objects.values import Pickled, loaded
from exoshuffle.errors import OptionsError
from exoshuffle.futures.refs import Column, Ref, Refs, SliceRef, Value

#: An object, and which of its slices a task takes; None for all of them.
Piece = tuple[State, "int | range | None"]
#: The name of a node, and whether the bytes are in its memory.
Medium = tuple[str, bool]


class Group:
    """The objects of a ``Refs``, which the tasks that share it wait for and look at together."""

    def __init__(self, states: tuple[State, ...], firsts: tuple[int, ...]) -> None:
        self.states = states
        #: See ``Refs``.
        self.firsts = firsts
        self._waiting: list[Callable[[], None]] = []
        self._num_left = 0
        self._seen_losses = self._asked_losses = -1
        self._error: BaseException | None = None
        self._media: dict[Medium, tuple[int, int]] = {}
        self._seen_moves = -1

    @property
    def is_over(self) -> bool:
        """Whether all of them are there, or have failed."""
        return self._num_left == 0 and self._has_seen_losses()

    @property
    def error(self) -> BaseException | None:
        """The error of the first that has failed."""
        return self._error

    def column_media(self) -> dict[Medium, tuple[int, int]]:
        """Returns where one slice of each modelled object lies: bytes and number, by medium; its slices are equal.

        Cost: a look at all of them after any has moved; else none, so that R columns of M objects cost no M x R.
        """
        moves = self.states[0].shared.num_moves if self.states else 0
        if moves != self._seen_moves:
            self._seen_moves = moves
            self._media = {}
            for state in self.states:
                if state.copy is not None:
                    medium = state.copy.node, state.copy.in_memory
                    num_bytes, count = self._media.get(medium, (0, 0))
                    self._media[medium] = num_bytes + state.slice_bytes(0), count + 1
        return self._media

    @functools.cached_property
    def has_inline(self) -> bool:
        """Whether small values that were put are among them."""
        return any(state.is_inline for state in self.states)

    def forget_seen(self) -> None:
        """Has all of them looked at again: some may have gone since nobody kept them."""
        self._seen_losses = self._asked_losses = -1

    def to_ask_for(self) -> list[State]:
        """Returns those that may have to be made again; none if somebody has asked since anything was lost."""
        losses = self.states[0].shared.num_losses if self.states else 0
        if losses == self._asked_losses:
            return []
        self._asked_losses = losses
        return self.missing()

    def missing(self) -> list[State]:
        """Returns those that are neither there nor have failed."""
        if self.is_over:
            return []
        return [state for state in self.states if not state.is_over]

    def when_over(self, action: Callable[[], None]) -> None:
        """Has something happen once all are over."""
        self._waiting.append(action)
        if self._num_left == 0:
            left = self.missing()
            self._num_left = len(left)
            for state in left:
                state.when_over(self._one_less)
            if not left:
                self._end()

    def _one_less(self) -> None:
        self._num_left -= 1
        if self._num_left == 0:
            self._end()

    def _end(self) -> None:
        waiting, self._waiting = self._waiting, []
        for action in waiting:
            action()

    def _has_seen_losses(self) -> bool:
        losses = self.states[0].shared.num_losses if self.states else 0
        if losses != self._seen_losses and all(state.is_over for state in self.states):
            self._seen_losses = losses
            failed = (state for state in self.states if state.status is Status.FAILED)
            self._error = next((state.error for state in failed), None)
        return losses == self._seen_losses or not self.states


class Argument:
    """One argument.

    Args:
        value: The value that the caller gave.
        what: The word for it in the error.

    Raises:
        OptionsError: The value cannot be pickled.
    """

    __slots__ = ("_handle", "_index", "_refs", "_state", "_value", "group")

    def __init__(self, value: object, what: str) -> None:
        self._handle: Handle | None = None
        self._state: State | None = None
        self._refs: Refs | None = None
        self.group: Group | None = None
        self._index: int | range | None = None
        self._value: Pickled | None = None
        if isinstance(value, Ref | SliceRef):
            ref = value if isinstance(value, Ref) else value.ref
            self._index = None if isinstance(value, Ref) else value.index
            self._handle = handle_of(ref)
            self._state = self._handle.state
        elif isinstance(value, Refs | Column):
            self._refs = value if isinstance(value, Refs) else value.refs
            self._index = None if isinstance(value, Refs) else value.index
            self.group = group_of(self._refs)
        else:
            self._value = pickled(value, what)

    @property
    def is_reference(self) -> bool:
        """Whether it stands for objects."""
        return self._value is None

    @property
    def awaited(self) -> State | Group | None:
        """The object or group that has to be made before the task starts."""
        return self._state or self.group

    @property
    def column(self) -> Group | None:
        """The objects of which it takes one slice each, if it does so and they are modelled."""
        is_column = self.group is not None and isinstance(self._index, int) and self.group.states
        if self.group is None or not is_column or self.group.states[0].parts is not None:
            return None
        return self.group

    def pieces(self) -> Iterator[Piece]:
        """Returns the objects that it stands for, and which of their slices it takes."""
        if self._state is not None:
            yield self._state, self._index
        elif self.group is not None:
            yield from self._members(self.group)

    def value(self, parts: Mapping[int, Sequence[Part]]) -> Value:
        """Makes the value; ``parts`` has the slices of the objects, by their number."""
        if self._value is not None:
            return self._value.load()
        if self._state is not None:
            return chosen(parts[self._state.number], self._index)
        assert self.group is not None
        return [chosen(parts[state.number], index) for state, index in self._members(self.group)]

    def _members(self, group: Group) -> Iterator[Piece]:
        """Returns the objects of a sequence, and which of their slices it takes."""
        for state, first in zip(group.states, group.firsts, strict=True):
            index = self._index
            yield state, index - first if isinstance(index, int) else index

    def rest(self) -> None:
        """Lets objects go; what is left is how to make them again."""
        if self._state is not None and not self._state.is_inline:
            self._handle = None
        if self.group is not None and not self.group.has_inline:
            self._refs = None
        if self._value is not None:
            self._value.rest()

    def wake(self) -> None:
        """Keeps them again."""
        if self._value is not None:
            self._value.wake()
        if self._state is not None and self._handle is None:
            self._handle = self._state.kept()
        if self.group is not None and self._refs is None:
            self.group.forget_seen()
            kept = (Ref(state.kept()) for state in self.group.states)
            self._refs = Refs(kept, self.group.firsts)


def chosen(parts: Sequence[Part], index: int | range | None) -> Value:
    """Returns the value of a slice, the list of the values of a range, or the value of the object."""
    if index is None:
        index = range(len(parts)) if len(parts) > 1 else 0
    if isinstance(index, range):
        return [loaded(parts[each]) for each in index]
    return loaded(parts[index])


def pickled(value: object, what: str) -> Pickled:
    """Returns a value at rest.

    Raises:
        OptionsError: The value cannot be pickled.
    """
    try:
        return Pickled(value)
    except Exception as error:
        raise OptionsError(f"{what} cannot be pickled: {error}") from error


def handle_of(ref: Ref) -> Handle:
    """Returns the handle that this engine put behind a reference.

    Raises:
        OptionsError: The reference is one of another engine.
    """
    handle: object = ref._object
    if not isinstance(handle, Handle):
        raise OptionsError(f"{ref!r} is of another engine; make it again on this one")
    return handle


def state_of(ref: Ref) -> State:
    """Returns the object behind a reference."""
    return handle_of(ref).state


def group_of(refs: Refs) -> Group:
    """Returns the objects of a sequence, which is looked through once."""
    if not isinstance(refs.engine_state, Group):
        refs.engine_state = Group(tuple(state_of(ref) for ref in refs), refs.firsts)
    return refs.engine_state
