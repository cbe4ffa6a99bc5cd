"""Calls of the futures API, and of ``xs.shuffle``, that mean nothing here: one sentence each, when the call is made.

A new refusal goes into ``REFUSED``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import exoshuffle as xs
from exoshuffle.errors import OptionsError
from exoshuffle.futures import Ref, TaskOptions
from exoshuffle.strategies import Push

pytestmark = [pytest.mark.shares_engine, pytest.mark.usefixtures("shared_engine")]

Untyped: Any = xs

#: Name: (the call, with a reference, words of the message).
REFUSED: dict[str, tuple[Callable[[Ref], object], str]] = {
    "partitions of another type": (
        lambda _: xs.shuffle([1], map=print, reduce=print, num_partitions="2"),
        "num_partitions is '2'; it must be a whole number",
    ),
    "auto for functions": (
        lambda _: xs.shuffle([1], map=print, reduce=print, num_partitions=2, strategy="auto"),
        "unknown strategy 'auto'; known are simple, push, pre_shuffle_merge, streaming$",
    ),
    "a class for functions": (
        lambda _: xs.shuffle([1], map=print, reduce=print, num_partitions=2, strategy=Push),
        "strategy is the class Push",
    ),
    "inputs that are none": (
        lambda _: xs.shuffle(7, map=print, reduce=print, num_partitions=2),
        "inputs is 7; it must be a list",
    ),
    "remote of no function": (
        lambda _: Untyped.remote(1),
        "remote needs a function or a class, and got 1",
    ),
    "CPUs of text": (lambda _: xs.remote(print, num_cpus="2"), "num_cpus is '2'; it must be a num"),
    "memory that is no size": (lambda _: xs.remote(print, memory="much"), "'much' is not a size"),
    "memory in a list": (
        lambda _: xs.remote(print, memory=[1]),
        r"memory is \[1\]; it must be a n",
    ),
    "retries of text": (lambda _: xs.remote(print, max_retries="2"), "max_retries is '2'; it must"),
    "retries by halves": (
        lambda _: xs.remote(print, max_retries=1.5),
        "max_retries is 1.5; it must",
    ),
    "restarts of text": (
        lambda _: xs.remote(dict, max_restarts="2"),
        "max_restarts is '2'; it must",
    ),
    "resources in a list": (
        lambda _: xs.remote(print, resources=["disk"]),
        r"resources is \['disk'\]; give a dictionary",
    ),
    "resources of text": (
        lambda _: TaskOptions(resources={"disk": "1"}),
        r"resources\['disk'\] is '1'; it must be a number",
    ),
    "an executor in a list": (lambda _: xs.remote(print, executor=["thread"]), "unknown executor"),
    "a map of one argument": (
        lambda _: Untyped.shuffle([1], map=lambda x: [x], reduce=print, num_partitions=1),
        r"map is called as map\(index, input\), and .*<lambda> cannot be: too many positional arg",
    ),
    "a reduce of one argument": (
        lambda _: Untyped.shuffle([1], map=print, reduce=lambda x: x, num_partitions=1),
        r"reduce is called as reduce\(partition, slices\), and .*<lambda> cannot be: too many",
    ),
    "a map that is none": (
        lambda _: Untyped.shuffle([1], map=1, reduce=print, num_partitions=2),
        "map is 1; it must be a function",
    ),
    "a reduce that is none": (
        lambda _: Untyped.shuffle([1], map=print, reduce="sum", num_partitions=2),
        "reduce is 'sum'; it must be a function",
    ),
    "get a value": (lambda _: Untyped.get(1), "get takes a list of references, and got 1$"),
    "get values": (lambda ref: Untyped.get([ref, None]), r"get takes references, .* and got None$"),
    "get text": (lambda _: Untyped.get("x"), "get takes references, .*, and got 'x'"),
    "wait for one": (Untyped.wait, "wait takes a list of references, and got Ref"),
    "wait for values": (lambda _: Untyped.wait([1]), "wait takes references, .*, and got 1$"),
    "wait for text": (
        lambda ref: Untyped.wait([ref], num_ready="1"),
        "num_ready is '1' for 1 refe",
    ),
    "cancel a value": (lambda _: Untyped.cancel(1), "cancel takes references, .*, and got 1$"),
    "kill a reference": (Untyped.kill, r"kill takes an actor, .* cancel\(\)$"),
    "locate a list": (lambda ref: Untyped.locate([ref]), r"locate takes references, .* got \[Ref"),
    "sizes of one": (Untyped.slice_bytes, "slice_bytes takes a list of reference"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_one_sentence(name: str) -> None:
    call, words = REFUSED[name]
    with pytest.raises(OptionsError, match=words) as caught:
        call(xs.put(1))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300
