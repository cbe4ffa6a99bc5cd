"""Late dataclasses make objects as ordinary ones do, with their first object and from any thread."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import pickle
import pkgutil
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Any, cast

import pytest

import exoshuffle
from exoshuffle import late_dataclasses
from exoshuffle.late_dataclasses import dataclass


@dataclass(frozen=True)
class Point:
    """Has a field with a default."""

    x: int
    y: list[int] = field(default_factory=list)


@dataclass
class Mutable:
    x: int = 1


@dataclass(frozen=True)
class Unequal:
    """Its fields are a base's and its own."""

    x: int


@dataclass(frozen=True, eq=False)
class Derived(Unequal):
    z: str = "z"

    def __post_init__(self) -> None:
        assert self.z


class Plain(Derived):
    """Derives from one, and is none."""


@dataclass(frozen=True)
class Unpickled:
    x: int


def test_objects_are_those_of_dataclasses() -> None:
    point = Point(1)
    assert repr(point) == "Point(x=1, y=[])"
    assert point == Point(x=1, y=[])
    assert point != Point(2)
    assert dataclasses.replace(point, x=3) == Point(3)
    assert dataclasses.asdict(point) == {"x": 1, "y": []}
    assert copy.deepcopy(point) == point
    with pytest.raises(dataclasses.FrozenInstanceError):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'w'"):
        Point(1, w=2)  # type: ignore[call-arg]
    mutable = Mutable()
    mutable.x = 2
    assert mutable == Mutable(2)
    with pytest.raises(TypeError, match="unhashable"):
        hash(mutable)


def _many_fields(made: Callable[..., Any]) -> type:
    """Returns a class with fields of all kinds, whose methods are made by a decorator."""

    class Base:
        def __post_init__(self) -> None:
            self.seen.append("post")  # type: ignore[attr-defined]

    class Many(Base):
        """Its fields are of all kinds."""

        given: int
        hidden: str = field(repr=False)
        by_name: int = field(kw_only=True)
        text: str = "text"
        uncompared: int = field(default=1, compare=False)
        default_by_name: int = field(default=2, kw_only=True)
        fixed: int = field(default=3, init=False)
        seen: list[str] = field(default_factory=list, compare=False)
        made: dict[str, int] = field(default_factory=dict, init=False, compare=False)

    return cast("type", made(frozen=True)(Many))


def test_fields_of_all_kinds_are_as_in_ordinary_dataclasses() -> None:
    found, wanted = [], []
    for made, told in ((dataclass, found), (dataclasses.dataclass, wanted)):
        cls = _many_fields(made)
        one = cls(1, "b", "c", 4, by_name=5)
        told += [repr(one), hash(one), vars(one), dataclasses.asdict(one)]  # type: ignore[call-overload]
        told += [one == cls(1, "b", "c", 9, by_name=5), one == cls(1, "b", by_name=5), one == 1]
        for wrong in (
            lambda cls=cls: cls(1, "b"),
            lambda cls=cls: cls(),
            lambda one=one: del_(one),
        ):
            with pytest.raises((TypeError, dataclasses.FrozenInstanceError)) as error:
                wrong()
            told.append(str(error.value))
        told.append(cls.__match_args__)  # type: ignore[attr-defined]
    assert found == wanted


def del_(one: object) -> None:
    del one.given  # type: ignore[attr-defined]


def test_methods_of_the_class_itself_stay() -> None:
    @dataclass(frozen=True)
    class Own:
        x: int

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 5

    @dataclass
    class Hashed:
        x: int

        def __hash__(self) -> int:
            return 7

    assert (repr(Own(1)), Own(1) == Own(2), hash(Own(1))) == ("own", True, 5)
    assert hash(Hashed(1)) == 7


def test_values_that_are_themselves_are_equal_and_rings_are_shown() -> None:
    point = Point(float("nan"))  # type: ignore[arg-type]
    assert point == copy.copy(point)
    point.y.append(point)  # type: ignore[arg-type]
    assert repr(point) == "Point(x=nan, y=[...])"


def test_bases_are_made_before_what_derives_from_them() -> None:
    plain = Plain(1, "w")
    assert (plain.x, plain.z) == (1, "w")
    assert repr(plain) == "Plain(x=1, z='w')"
    assert hash(Unequal(1)) == hash(Unequal(1))


def test_an_abstract_class_makes_no_objects() -> None:
    @dataclass(frozen=True)
    class Abstract(ABC):
        x: int

        @abstractmethod
        def run(self) -> None: ...

    with pytest.raises(TypeError, match="abstract"):
        Abstract(1)  # type: ignore[abstract]


def test_unpickled_objects_have_their_methods() -> None:
    """In a process that makes none itself."""
    bytes_of_one = pickle.dumps(Unpickled(1))
    program = (
        "import pickle; from tests.unit.test_late_dataclasses import Unpickled\n"
        f"one, two = (pickle.loads({bytes_of_one!r}) for _ in range(2))\n"
        "assert one == two and hash(one) == hash(two) and repr(one) == 'Unpickled(x=1)'"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_threads_make_the_methods_once() -> None:
    for _ in range(50):

        @dataclass(frozen=True)
        class Shared:
            x: int

        made: list[object] = []
        start = threading.Barrier(4)

        def make(shared: type = Shared, start: threading.Barrier = start) -> None:
            start.wait()
            made.append(shared(1))  # noqa: B023  the thread ends in this round

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert made == [Shared(1)] * 4


def _classes() -> Iterator[type]:
    """Yields the classes of the package, but those for Ray, which may not be installed."""
    for module in pkgutil.walk_packages(exoshuffle.__path__, "exoshuffle."):
        if "ray" not in module.name and "testing" not in module.name:
            found = importlib.import_module(module.name)
            yield from (cls for _, cls in inspect.getmembers(found, inspect.isclass))


def test_no_ordinary_dataclass_derives_from_a_late_one() -> None:
    """It would not have its fields."""
    classes = set(_classes())
    ordinary = {cls for cls in classes if "__dataclass_fields__" in vars(cls)}
    before = {cls: list(cls.__dataclass_fields__) for cls in ordinary}  # type: ignore[attr-defined]
    late_dataclasses.make_all()
    assert len(before) > 5
    for cls, names in before.items():
        known = {
            name for base in cls.__mro__ for name in vars(base).get("__dataclass_fields__", ())
        }
        assert set(names) == known, cls
