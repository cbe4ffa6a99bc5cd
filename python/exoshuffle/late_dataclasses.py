"""``dataclass``, whose methods are made with the first object of a class instead of with the class.

Guarantee: objects are those of ``dataclasses``: made, compared, copied and unpickled alike. Only the class itself
looks different before its first object: it has no signature and no fields yet. So classes that users make, derive from
or look into are ordinary dataclasses, and no ordinary one derives from one of these.

Why: ``dataclasses`` compiles six methods for a frozen class, 0.5 ms. A program that sorted a table made 180 such
classes and used 60: that was 44 % of the time of its imports. Cost: 0.2 µs per object.

Only ``__init__`` is compiled here, because its signature is the class's own; the other methods read the fields by name.
That takes 0.09 ms for a class, and Q2 of TPC-H uses 70 of them.
"""

from __future__ import annotations

import dataclasses
import operator
import reprlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

__all__ = ["dataclass", "make_all"]

#: The classes without methods, with their options; bases come before the classes that derive from them.
_pending: dict[type, dict[str, bool]] = {}
_lock = threading.RLock()

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """Does what ``dataclasses.dataclass`` does, later; has its options, but not ``slots``."""
        if cls is None:
            return lambda decorated: _later(decorated, options)
        return _later(cls, options)


def make_all() -> None:
    """Makes the methods of all classes: before workers are forked, so that each of them need not."""
    for cls in list(_pending):
        _make(cls)


def _later(cls: type, options: dict[str, bool]) -> type:
    def __new__(derived: type, *arguments: object, **named: object) -> object:  # noqa: N807
        del arguments, named
        if cls in _pending:
            _make(cls)
        return object.__new__(derived)

    # All objects pass it: new ones, copies, and those that are unpickled.
    cls.__new__ = __new__  # type: ignore[method-assign,assignment]
    _pending[cls] = options
    return cls


def _make(cls: type) -> None:
    """Makes the methods of a class, and those of its bases before."""
    for base in reversed(cls.__mro__):
        if base in _pending:
            with _lock:
                if base in _pending:
                    _complete(base, _pending[base])
                    del _pending[base]


def _complete(cls: Any, options: dict[str, bool]) -> None:
    """Gives a class its fields, and the methods that it does not define itself."""
    is_frozen = options.get("frozen", False)
    own = vars(cls)
    # Python itself sets __hash__ to None where a class defines __eq__.
    has_hash = "__hash__" in own and not (own["__hash__"] is None and "__eq__" in own)
    dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
    fields = dataclasses.fields(cls)
    methods: dict[str, Callable[..., object]] = {"__init__": _init(cls, fields, is_frozen)}
    if options.get("repr", True):
        methods["__repr__"] = _repr([field.name for field in fields if field.repr])
    if options.get("eq", True):
        values = _values([field.name for field in fields if field.compare])
        methods["__eq__"] = _eq(values)
        if not has_hash:
            cls.__hash__ = _hash(values) if is_frozen else None
    if is_frozen:
        names = {field.name for field in fields}
        methods["__setattr__"] = _refusing(cls, names, "assign to", object.__setattr__)
        methods["__delattr__"] = _refusing(cls, names, "delete", object.__delattr__)
    for name, method in methods.items():
        if name not in own:
            method.__qualname__ = f"{cls.__qualname__}.{name}"
            setattr(cls, name, method)


def _init(
    cls: type, fields: tuple[dataclasses.Field[object], ...], is_frozen: bool
) -> Callable[..., None]:
    """Compiles ``__init__``; names in its text that begin with ``_exoshuffle`` are not those of fields."""
    unset = dataclasses.MISSING
    scope: dict[str, object] = {"_exoshuffle_set": object.__setattr__, "_exoshuffle_unset": unset}
    parameters, lines = ["self"], []
    is_by_name = False
    for field in sorted(fields, key=lambda field: bool(field.kw_only)):
        name, value, default = field.name, field.name, ""
        if field.default_factory is not unset:
            scope[f"_exoshuffle_{name}"] = field.default_factory
            default, made = "=_exoshuffle_unset", f"_exoshuffle_{name}()"
            value = f"{made} if {name} is _exoshuffle_unset else {name}" if field.init else made
        elif field.default is not unset:
            scope[f"_exoshuffle_{name}"] = field.default
            default = f"=_exoshuffle_{name}"
        if field.init:
            if field.kw_only and not is_by_name:
                parameters.append("*")
                is_by_name = True
            parameters.append(name + default)
        elif field.default_factory is unset:
            continue  # the class has its default
        lines.append(
            f"_exoshuffle_set(self, {name!r}, {value})" if is_frozen else f"self.{name} = {value}"
        )
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    body = "\n ".join(lines or ["pass"])
    exec(f"def __init__({', '.join(parameters)}):\n {body}", scope)  # noqa: S102  names of ours
    return cast("Callable[..., None]", scope["__init__"])


def _repr(names: list[str]) -> Callable[[object], str]:
    @reprlib.recursive_repr()
    def __repr__(self: object) -> str:  # noqa: N807
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__}({values})"

    return __repr__


def _values(names: list[str]) -> Callable[[object], tuple[object, ...]]:
    """Returns what gives the values of these fields as a tuple."""
    if len(names) > 1:
        return operator.attrgetter(*names)
    return lambda one: tuple(getattr(one, name) for name in names)


def _eq(values: Callable[[object], tuple[object, ...]]) -> Callable[[object, object], bool]:
    def __eq__(self: object, other: object) -> bool:  # noqa: N807
        if type(other) is not type(self):
            return NotImplemented
        return values(self) == values(other)

    return __eq__


def _hash(values: Callable[[object], tuple[object, ...]]) -> Callable[[object], int]:
    def __hash__(self: object) -> int:  # noqa: N807
        return hash(values(self))

    return __hash__


def _refusing(
    cls: type, names: set[str], what: str, otherwise: Callable[..., None]
) -> Callable[..., None]:
    """Returns the method that sets or deletes what is no field, and that only in classes that derive from this one."""

    def refused(self: object, name: str, *value: object) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot {what} field {name!r}")
        otherwise(self, name, *value)

    return refused
