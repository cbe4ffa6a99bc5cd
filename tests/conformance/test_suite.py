"""The conformance suite itself: nothing of it is lost when it is put together, and workers need no pytest."""

from __future__ import annotations

import collections
import subprocess
import sys

from exoshuffle.testing import Conformance, EngineConformance


def test_no_test_hides_another() -> None:
    names = [
        name
        for part in EngineConformance.__bases__
        for name in vars(part)
        if name.startswith("test_")
    ]
    assert [name for name, number in collections.Counter(names).items() if number > 1] == []
    assert len(names) > 50


def test_the_whole_suite_has_all_parts() -> None:
    assert set(EngineConformance.__bases__) == set(Conformance.__subclasses__())


def test_workers_need_no_pytest() -> None:
    program = "import sys, exoshuffle.testing.programs; sys.exit('pytest' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
