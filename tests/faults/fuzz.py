"""A random program over references: the steps, and the model of the value that each reference must have.

One seed is one sequence of steps. How they interleave with the engine's threads and workers is not part of it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import exoshuffle as xs
from exoshuffle.errors import ActorDiedError, TaskCancelledError
from exoshuffle.testing.meeting import PATIENCE_SECONDS, Counter, helper, poll
from tests.faults import programs
from tests.faults.model import Entry, Group, Leaf, Risk, Spec, digest_of
from tests.support.worker_processes import worker_processes

log = logging.getLogger(__name__)

#: The first two are kept inline, the others in the store.
SIZES = [16, 4_000, 200_000, 1_000_000, 3_000_000]
MAX_WAITING, MAX_ACTORS, MAX_STREAMS, MAX_DEATHS = 2, 2, 3, 8


@dataclass(eq=False)
class Actor:
    """An actor and the references it keeps."""

    handle: Any
    pid: int
    is_process: bool
    restarts_left: int
    kept: list[Entry]
    risk: Risk


@dataclass(eq=False)
class Stream:
    """A generator's items that were not taken yet."""

    stream: xs.RefStream
    leaf: Leaf
    left: int
    risks: frozenset[Risk]


class Program:
    """One random program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.live: list[Entry] = []
        self.actors: list[Actor] = []
        self.streams: list[Stream] = []
        self.waiting: list[xs.Ref] = []
        #: Includes actors that still do calls after their handle was dropped.
        self.actor_pids: set[int] = set()
        self.dying: list[int] = []
        self.deaths_left = MAX_DEATHS
        self.next_seed = 1
        self.steps: dict[Callable[[], object], int] = {
            self.put: 6,
            self.put_references: 5,
            self.make: 8,
            self.make_many: 8,
            self.digest_arguments: 12,
            self.digest_inside: 6,
            self.digest_closed_over: 4,
            self.take_some: 3,
            self.relay: 8,
            self.fail_at_first: 4,
            self.check: 10,
            self.drop: 12,
            self.wait: 3,
            self.cancel: 4,
            self.start_stream: 5,
            self.take_item: 12,
            self.drop_stream: 3,
            self.make_actor: 4,
            self.call_actor: 18,
            self.hand_over: 2,
            self.end_actor: 2,
            self.kill_worker: 4,
        }

    def run(self, num_steps: int) -> None:
        """Makes the steps, then reads all references that are left."""
        functions, weights = list(self.steps), list(self.steps.values())
        for number in range(num_steps):
            step = self.random.choices(functions, weights)[0]
            log.info("step %d: %s", number, getattr(step, "__name__", step))
            step()
        for entry in self.live:
            entry.check()

    # --- helpers -------------------------------------------------------------------------------

    def some(self, most: int) -> list[Entry]:
        return self.random.sample(self.live, min(len(self.live), self.random.randint(1, most)))

    def leaf(self, count: int = 1) -> Leaf:
        """Returns a payload of its own; ``count`` seeds in a row are taken."""
        seed, self.next_seed = self.next_seed, self.next_seed + count
        return Leaf(seed, self.random.choice(SIZES))

    def kind(self, *kinds: str) -> str:
        return self.random.choice(["bytes", "wrapped", *kinds])

    def executor(self) -> str:
        return self.random.choice(["process", "process", "process", "thread"])

    def task(self, function: Callable[..., Any], **options: Any) -> Any:
        """Returns a remote function that may be killed as often as it happens."""
        return xs.remote(function, **{"max_retries": 100, "executor": self.executor(), **options})

    def keep(self, ref: Any, spec: Spec, risks: Sequence[Risk] = ()) -> None:
        """Keeps ``ref``, made by something that can be cancelled."""
        cancelled = Risk(TaskCancelledError)
        self.live.append(Entry(ref, spec, frozenset({cancelled, *risks}), cancelled))

    def keep_waiting(self, ref: xs.Ref) -> None:
        """Keeps a task that may wait for others; bounds how many of these there are, and so of workers."""
        self.waiting.append(ref)
        while len(self.waiting) > MAX_WAITING:
            done, self.waiting = xs.wait(self.waiting, timeout=PATIENCE_SECONDS)
            assert done

    # --- steps: objects ------------------------------------------------------------------------

    def put(self) -> None:
        leaf = self.leaf()
        self.live.append(Entry(xs.put(programs.make(leaf.seed, leaf.size, self.kind())), leaf))

    def put_references(self) -> None:
        used = self.some(3)
        self.keep(xs.put([entry.ref for entry in used]), references(used), risks_of(used))

    def make(self) -> None:
        leaf = self.leaf()
        make = self.task(programs.make)
        self.keep(make.remote(leaf.seed, leaf.size, self.kind("raw")), leaf)

    def make_many(self) -> None:
        count = self.random.randint(2, 4)
        first = self.leaf(count)
        make = self.task(programs.make_many, num_returns=count)
        ref = make.remote(first.seed, first.size, self.kind("raw"), count)
        leaves = tuple(Leaf(first.seed + index, first.size) for index in range(count))
        if self.random.random() < 0.3:
            index = self.random.randrange(count)
            self.keep(ref[index], leaves[index])
        else:
            self.keep(ref, Group(leaves))

    def digest_arguments(self) -> None:
        used = self.some(4)
        chosen = [self.argument(entry) for entry in used]
        same = [entry for entry in used if is_many(entry)]
        if same:
            refs, index = xs.Refs(entry.ref for entry in same), self.random.randrange(2)
            column = Group(tuple(entry.spec.parts[index] for entry in same))
            chosen += [(refs, Group(tuple(entry.spec for entry in same)))]
            chosen += [(refs.column(index), column)]
        args = [arg for arg, _ in chosen]
        if args:
            ref = self.task(programs.digest).remote(*args[:-1], named=args[-1])
            spec = Leaf(digest_of([spec for _, spec in chosen]))
            self.keep(ref, spec, risks_of(used))
            self.keep_waiting(ref)

    def argument(self, entry: Entry) -> tuple[Any, Spec]:
        """Returns the object, a slice or several."""
        choice = self.random.randrange(3)
        if is_many(entry) and choice:
            first = self.random.randrange(len(entry.ref))
            if choice == 1:
                return entry.ref[first], entry.spec.parts[first]
            return entry.ref[first:], Group(entry.spec.parts[first:])
        return entry.ref, entry.spec

    def digest_inside(self) -> None:
        used = self.some(3)
        inside = {str(index): entry.ref for index, entry in enumerate(used)}
        ref = self.task(programs.digest).remote([inside])
        group = Group((Group(tuple(entry.spec for entry in used)),))
        self.keep(ref, Leaf(digest_of([group])), risks_of(used))
        self.keep_waiting(ref)

    def digest_closed_over(self) -> None:
        used = self.some(2)
        refs = [entry.ref for entry in used]
        ref = self.task(lambda: programs.digest(*refs)).remote()
        self.keep(ref, Leaf(digest_of([entry.spec for entry in used])), risks_of(used))
        self.keep_waiting(ref)

    def take_some(self) -> None:
        count = self.random.randint(2, 8)
        leaf = self.leaf(count)
        ref = self.task(programs.take_some).remote(leaf.seed, leaf.size, count)
        taken = tuple(Leaf(leaf.seed + index, leaf.size) for index in range(count // 2))
        self.keep(ref, Group(taken, are_references=True))
        self.keep_waiting(ref)

    def relay(self) -> None:
        used, leaf = self.some(3), self.leaf(2)
        inside = {"refs": [entry.ref for entry in used]}
        ref = self.task(programs.relay).remote(inside, leaf.seed, leaf.size)
        returned = tuple(entry.spec for entry in reversed(used))
        parts = (*returned, Leaf(leaf.seed + 1, leaf.size), leaf)
        self.keep(ref, Group(parts, are_references=True), risks_of(used))

    def fail_at_first(self) -> None:
        leaf, dies = self.leaf(), self.random.random() < 0.5
        fail = self.task(programs.fail_at_first, executor="process" if dies else self.executor())
        failures, attempts = self.random.randint(1, 2), helper(Counter)
        self.keep(fail.remote(attempts, failures, dies, leaf.seed, leaf.size), leaf)

    def check(self) -> None:
        for entry in self.some(1):
            if not entry.check():
                self.live.remove(entry)

    def drop(self) -> None:
        for entry in self.some(3):
            self.live.remove(entry)

    def wait(self) -> None:
        refs = [entry.ref for entry in self.some(4) if isinstance(entry.ref, xs.Ref)]
        done, others = xs.wait(refs, num_ready=min(1, len(refs)), timeout=PATIENCE_SECONDS)
        assert len(done) >= min(1, len(refs))
        assert len(done) + len(others) == len(refs)

    def cancel(self) -> None:
        for entry in self.some(1):
            if isinstance(entry.ref, xs.Ref) and xs.cancel(entry.ref):
                assert entry.cancelled is not None
                entry.cancelled.happened = True
                with pytest.raises(TaskCancelledError):
                    xs.get(entry.ref, timeout=PATIENCE_SECONDS)

    # --- steps: streams ------------------------------------------------------------------------

    def start_stream(self) -> None:
        if len(self.streams) < MAX_STREAMS:
            count = self.random.randint(0, 12)
            leaf = self.leaf(count)
            actor = self.random.choice([None, *self.actors])
            source = self.task(programs.produce) if actor is None else actor.handle.produce
            call = source.options(num_returns="streaming")
            risks = frozenset() if actor is None else frozenset({actor.risk})
            stream = call.remote(leaf.seed, leaf.size, count)
            self.streams.append(Stream(stream, leaf, count, risks))

    def take_item(self) -> None:
        if not self.streams:
            return
        source = self.random.choice(self.streams)
        try:
            ref = source.stream.next(timeout=PATIENCE_SECONDS)
        except ActorDiedError:
            assert any(risk.happened for risk in source.risks)
            ref = None
        else:
            assert (ref is None) == (source.left == 0)
        if ref is None:
            self.streams.remove(source)
        else:
            self.live.append(Entry(ref, source.leaf))
            source.leaf = Leaf(source.leaf.seed + 1, source.leaf.size)
            source.left -= 1

    def drop_stream(self) -> None:
        if self.streams:
            self.streams.remove(self.random.choice(self.streams))

    # --- steps: actors -------------------------------------------------------------------------

    def make_actor(self) -> None:
        if len(self.actors) == MAX_ACTORS:
            return
        self.await_deaths()
        restarts, executor = self.random.randrange(2), self.executor()
        cls = xs.remote(programs.Keeper, max_restarts=restarts, executor=executor)
        handle = cls.remote()
        pid = self.process_of(handle)
        is_process = executor == "process"
        self.actors.append(Actor(handle, pid, is_process, restarts, [], Risk(ActorDiedError)))

    def call_actor(self) -> None:
        if not self.actors:
            return
        actor, leaf = self.random.choice(self.actors), self.leaf()
        handle, risks = actor.handle, [actor.risk, *risks_of(actor.kept)]
        choice = self.random.choice(["keep", "keep", "keep", "give", "digest", "make", "forget"])
        if choice == "keep":
            used = self.some(3)
            handle.keep.remote([entry.ref for entry in used])
            actor.kept += used
        elif choice == "give":
            self.keep(handle.give.remote(), references(actor.kept), risks)
        elif choice == "digest":
            ref = handle.digest.remote()
            spec = Leaf(digest_of([entry.spec for entry in actor.kept]))
            self.keep(ref, spec, risks)
            self.keep_waiting(ref)
        elif choice == "make":
            made = handle.make.remote(leaf.seed, leaf.size, self.kind("raw"))
            self.keep(made, leaf, [actor.risk])
        elif actor.kept:
            index = self.random.randrange(len(actor.kept))
            handle.forget.remote(index)
            del actor.kept[index]

    def hand_over(self) -> None:
        """Lets a task store references with an actor; no attempt of it may be repeated."""
        alive = [actor for actor in self.actors if not actor.risk.happened]
        if not alive:
            return
        self.await_deaths()
        actor, used, leaf = self.random.choice(alive), self.some(2), self.leaf()
        task = xs.remote(programs.hand_over, max_retries=0)
        done = task.remote(actor.handle, [entry.ref for entry in used], leaf.seed, leaf.size)
        xs.get(done, timeout=PATIENCE_SECONDS)
        own = Entry(done, leaf)
        actor.kept += [*used, own]

    def end_actor(self) -> None:
        if not self.actors:
            return
        actor, how = self.random.choice(self.actors), self.random.choice(["drop", "kill", "die"])
        if how == "die" and actor.is_process and self.deaths_left:
            self.die(actor)
        else:
            # The calls of a dropped actor are done; those of a killed one may not be.
            self.actors.remove(actor)
            if how == "kill":
                xs.kill(actor.handle)
                actor.risk.happened = True

    def die(self, actor: Actor) -> None:
        """Kills the actor's process; it comes back empty, or later calls say that it is gone."""
        if actor.restarts_left == 0:
            actor.risk.happened = True
            self.kill(actor.pid)
            return
        # The answer comes after all calls that were made: none is lost.
        self.process_of(actor.handle)
        self.kill(actor.pid)
        self.await_deaths()
        actor.kept, actor.restarts_left = [], actor.restarts_left - 1
        actor.pid = self.process_of(actor.handle)

    def process_of(self, handle: Any) -> int:
        pid = int(xs.get(handle.process.remote(), timeout=PATIENCE_SECONDS))
        self.actor_pids.add(pid)
        return pid

    # --- steps: kill -9 ------------------------------------------------------------------------

    def kill_worker(self) -> None:
        """Kills a worker that runs tasks, or is idle, or just starts."""
        workers = [child for child in worker_processes() if child.pid not in self.actor_pids]
        if workers and self.deaths_left:
            self.kill(self.random.choice(workers).pid)

    def kill(self, pid: int) -> None:
        self.deaths_left -= 1
        self.dying.append(pid)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def await_deaths(self) -> None:
        """Waits until killed processes have ended, so that nobody takes them for workers that live."""
        poll(lambda: all(map(has_ended, self.dying)))
        self.dying.clear()


def has_ended(pid: int) -> bool:
    """Returns whether a process has ended, with all its threads; its parent may not have waited for it yet."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in "ZX" and int(fields[16]) <= 1


def is_many(entry: Entry) -> bool:
    """Returns whether it is an object of several slices."""
    return isinstance(entry.ref, xs.Ref) and len(entry.ref) > 1


def references(entries: Sequence[Entry]) -> Group:
    """Returns a list of references to these."""
    return Group(tuple(entry.spec for entry in entries), are_references=True)


def risks_of(entries: Sequence[Entry]) -> list[Risk]:
    """Returns all risks of these."""
    return [risk for entry in entries for risk in entry.risks]
