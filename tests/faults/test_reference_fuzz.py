"""Random programs over references, with workers and actors killed: no object goes early, none stays."""

from __future__ import annotations

import gc
import logging
import os
import random
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import exoshuffle as xs
from exoshuffle.engines.local import LocalEngine, limits
from exoshuffle.engines.local.objects import ObjectState
from exoshuffle.engines.local.pool import WORKER_BYTES
from exoshuffle.errors import ActorDiedError, TaskCancelledError
from exoshuffle.testing.meeting import PATIENCE_SECONDS, Counter, helper, poll
from tests.conftest import open_files
from tests.faults import programs
from tests.faults.model import Entry, Group, Leaf, Risk, digest_of

log = logging.getLogger(__name__)

NUM_STEPS = 150
#: Large ones lie in the store, small ones inline.
SIZES = [16, 4_000, 200_000, 600_000, 2_000_000]
#: More workers than a program can need at once: two that run, some that wait in ``get`` and those of actors.
NUM_WORKERS = 14
#: What is left for blocks when all these workers are there.
ROOM_BYTES = 30_000_000
MAX_WAITING, MAX_ACTORS, MAX_STREAMS, MAX_DEATHS = 3, 3, 3, 8
#: Nothing fails because it was killed too often.
run = {"max_retries": 100}


class Actor:
    """An actor, and what the model knows of it."""

    def __init__(self, restarts: int, executor: str) -> None:
        cls = xs.remote(programs.Keeper, max_restarts=restarts, executor=executor)
        self.handle = cls.remote()
        self.pid = int(xs.get(self.handle.process.remote(), timeout=PATIENCE_SECONDS))
        self.is_process = executor == "process"
        self.restarts_left = restarts
        self.kept: list[Entry] = []
        self.risk = Risk(ActorDiedError)

    def risks(self) -> frozenset[Risk]:
        """Those of a call that reads what the actor keeps."""
        return frozenset({self.risk}).union(*(entry.risks for entry in self.kept))


class Program:
    """One random program; the engine's threads and workers decide the rest."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.live: list[Entry] = []
        self.actors: list[Actor] = []
        self.streams: list[tuple[xs.RefStream, int, int, frozenset[Risk]]] = []
        self.waiting: list[xs.Ref] = []
        self.num_deaths = 0
        self.dying: list[psutil.Process] = []
        self.next_seed = 1
        self.steps: list[tuple[Callable[[], object], int]] = [
            (self.put, 6),
            (self.put_references, 5),
            (self.make, 8),
            (self.make_many, 6),
            (self.digest_arguments, 12),
            (self.digest_inside, 6),
            (self.relay, 8),
            (self.fail_at_first, 4),
            (self.check_one, 10),
            (self.drop, 14),
            (self.wait, 3),
            (self.cancel, 4),
            (self.start_stream, 4),
            (self.take_item, 12),
            (self.drop_stream, 3),
            (self.make_actor, 4),
            (self.use_actor, 16),
            (self.end_actor, 2),
            (self.kill_worker, 4),
        ]

    def run(self) -> None:
        functions, weights = zip(*self.steps, strict=True)
        for number in range(NUM_STEPS):
            step = self.random.choices(functions, weights)[0]
            log.info("step %d: %s", number, step.__name__)
            step()
        for entry in self.live:
            entry.check()

    # --- helpers -------------------------------------------------------------------------------

    def some(self, most: int) -> list[Entry]:
        return self.random.sample(self.live, min(len(self.live), self.random.randint(1, most)))

    def leaf(self, count: int = 1) -> Leaf:
        """A payload that no other has; ``count`` seeds in a row are its own."""
        seed, self.next_seed = self.next_seed, self.next_seed + count
        return Leaf(seed, self.random.choice(SIZES))

    def kind(self, *kinds: str) -> str:
        return self.random.choice(["bytes", "wrapped", *kinds])

    def executor(self) -> str:
        return self.random.choice(["process", "process", "process", "thread"])

    def remote(self, function: Callable[..., Any], **options: Any) -> Any:
        return xs.remote(function, **{**run, "executor": self.executor(), **options})

    def keep(self, ref: Any, spec: Leaf | Group, *used: Entry) -> None:
        """A task that reads ``used`` makes ``ref``."""
        risks = frozenset({Risk(TaskCancelledError)}).union(*(entry.risks for entry in used))
        self.live.append(Entry(ref, spec, risks))

    def keep_waiting(self, ref: xs.Ref) -> None:
        """The task may wait for others; bounds how many of these there are."""
        self.waiting.append(ref)
        if len(self.waiting) > MAX_WAITING:
            num_ready = len(self.waiting) - MAX_WAITING
            ready, self.waiting = xs.wait(self.waiting, num_ready, timeout=PATIENCE_SECONDS)
            assert len(ready) >= num_ready

    # --- steps: objects ------------------------------------------------------------------------

    def put(self) -> None:
        leaf = self.leaf()
        ref = xs.put(programs.make(leaf.seed, leaf.size, self.kind()))
        self.live.append(Entry(ref, leaf))

    def put_references(self) -> None:
        entries = self.some(3)
        spec = Group(tuple(entry.spec for entry in entries), are_references=True)
        self.keep(xs.put([entry.ref for entry in entries]), spec, *entries)

    def make(self) -> None:
        leaf = self.leaf()
        make = self.remote(programs.make)
        self.keep(make.remote(leaf.seed, leaf.size, self.kind("raw")), leaf)

    def make_many(self) -> None:
        count = self.random.randint(2, 4)
        leaf = self.leaf(count)
        make = self.remote(programs.make_many, num_returns=count)
        ref = make.remote(leaf.seed, leaf.size, self.kind("raw"), count)
        leaves = tuple(Leaf(leaf.seed + index, leaf.size) for index in range(count))
        if self.random.random() < 0.3:
            index = self.random.randrange(count)
            self.keep(ref[index], leaves[index])
        else:
            self.keep(ref, Group(leaves))

    def digest_arguments(self) -> None:
        args, specs, used = [], [], self.some(4)
        for entry in used:
            arg, spec = self.argument(entry)
            args.append(arg)
            specs.append(spec)
        same = self.columns()
        if same:
            refs, index = xs.Refs(entry.ref for entry in same), self.random.randrange(2)
            args += [refs, refs.column(index)]
            specs.append(Group(tuple(entry.spec for entry in same)))
            specs.append(Group(tuple(entry.spec.parts[index] for entry in same)))
        ref = self.remote(programs.digest).remote(*args[1:], named=args[0]) if args else xs.put(0)
        if args:
            specs = [*specs[1:], specs[0]]
        self.keep(ref, Leaf(digest_of(specs)), *used, *same)
        self.keep_waiting(ref)

    def argument(self, entry: Entry) -> tuple[Any, Leaf | Group]:
        """A reference, or some slices of it."""
        spec, choice = entry.spec, self.random.randrange(3)
        if isinstance(entry.ref, xs.Ref) and len(entry.ref) > 1 and choice:
            assert isinstance(spec, Group)
            first = self.random.randrange(len(entry.ref))
            if choice == 1:
                return entry.ref[first], spec.parts[first]
            return entry.ref[first:], Group(spec.parts[first:])
        return entry.ref, spec

    def columns(self) -> list[Entry]:
        """Some objects of several slices."""
        found = [e for e in self.live if isinstance(e.ref, xs.Ref) and len(e.ref) > 1]
        return self.random.sample(found, min(len(found), self.random.randrange(3)))

    def digest_inside(self) -> None:
        used = self.some(3)
        inside = {str(index): entry.ref for index, entry in enumerate(used)}
        ref = self.remote(programs.digest).remote([inside])
        group = Group((Group(tuple(entry.spec for entry in used)),))
        self.keep(ref, Leaf(digest_of([group])), *used)
        self.keep_waiting(ref)

    def relay(self) -> None:
        used, leaf = self.some(3), self.leaf(2)
        inside = {"refs": [entry.ref for entry in used]}
        ref = self.remote(programs.relay).remote(inside, leaf.seed, leaf.size)
        specs = [entry.spec for entry in reversed(used)]
        parts = (*specs, Leaf(leaf.seed + 1, leaf.size), leaf)
        self.keep(ref, Group(parts, are_references=True), *used)

    def fail_at_first(self) -> None:
        leaf, dies = self.leaf(), self.random.random() < 0.5
        executor = "process" if dies else self.executor()
        fail = self.remote(programs.fail_at_first, executor=executor)
        failures = self.random.randint(1, 2)
        attempts = helper(Counter)
        self.keep(fail.remote(attempts, failures, dies, leaf.seed, leaf.size), leaf)

    def check_one(self) -> None:
        for entry in self.some(1):
            if not entry.check():
                self.live.remove(entry)

    def drop(self) -> None:
        for entry in self.some(3):
            self.live.remove(entry)

    def wait(self) -> None:
        refs = [entry.ref for entry in self.some(4) if isinstance(entry.ref, xs.Ref)]
        ready, others = xs.wait(refs, num_ready=min(1, len(refs)), timeout=PATIENCE_SECONDS)
        assert len(ready) >= min(1, len(refs))
        assert len(ready) + len(others) == len(refs)

    def cancel(self) -> None:
        for entry in self.some(1):
            if isinstance(entry.ref, xs.Ref) and xs.cancel(entry.ref):
                for risk in entry.risks:
                    risk.happened |= risk.error is TaskCancelledError
                with pytest.raises(TaskCancelledError):
                    xs.get(entry.ref, timeout=PATIENCE_SECONDS)

    # --- steps: streams ------------------------------------------------------------------------

    def start_stream(self) -> None:
        if len(self.streams) < MAX_STREAMS:
            count = self.random.randint(0, 12)
            leaf = self.leaf(count)
            produce = self.remote(programs.produce, num_returns="streaming")
            stream = produce.remote(leaf.seed, leaf.size, count)
            self.streams.append((stream, leaf, count, frozenset()))

    def take_item(self) -> None:
        if self.streams:
            index = self.random.randrange(len(self.streams))
            stream, leaf, left, risks = self.streams.pop(index)
            ref = stream.next(timeout=PATIENCE_SECONDS)
            assert (ref is None) == (left == 0)
            if ref is not None:
                self.live.append(Entry(ref, leaf, risks))
                following = Leaf(leaf.seed + 1, leaf.size)
                self.streams.insert(index, (stream, following, left - 1, risks))

    def drop_stream(self) -> None:
        if self.streams:
            del self.streams[self.random.randrange(len(self.streams))]
