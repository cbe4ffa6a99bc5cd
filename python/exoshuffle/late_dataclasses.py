"""``dataclass``, whose methods are made with the first object of a class instead of with the class.

Guarantee: objects are those of ``dataclasses``: made, compared, copied and unpickled alike. Only the class itself
looks different before its first object: it has no signature and no fields yet. So classes that users make, derive from
or look into are ordinary dataclasses, and no ordinary one derives from one of these.

Why: ``dataclasses`` compiles six methods for a frozen class, 0.5 ms. A program that sorted a table made 180 such
classes and used 60: that was 44 % of the time of its imports. Cost: 0.2 µs per object.
"""

from __future__ import annotations

import dataclasses
import threading
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass", "make_all"]

#: The classes without methods, with their options; bases come before the classes that derive from them.
_pending: dict[type, dict[str, Any]] = {}
_lock = threading.RLock()

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls: type | None = None, /, **options: Any) -> Any:
        """Does what ``dataclasses.dataclass`` does, later; has its options, but not ``slots``."""
        if cls is None:
            return lambda decorated: _later(decorated, options)
        return _later(cls, options)


def make_all() -> None:
    """Makes the methods of all classes: before workers are forked, so that each of them need not."""
    for cls in list(_pending):
        _make(cls)


def _later(cls: type, options: dict[str, Any]) -> type:
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
                    dataclasses.dataclass(**_pending[base])(base)
                    del _pending[base]
