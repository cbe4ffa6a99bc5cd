"""The common part of the conformance suite: the engine under test and the executors to try."""

from __future__ import annotations

from typing import ClassVar

import pytest

from exoshuffle.futures import Engine


class Conformance:
    """Base of the parts of the suite: mixin classes of tests that use only the public API.

    The test file that inherits one defines a fixture ``engine``, which makes an engine the current one (``xs.init``)
    for a test and closes it afterwards. A test may have closed it before; tests may share one, as long as it is open.
    It must have 2 CPUs or more, 1 declared GPU, a declared resource ``token`` of which there is 1, on one node or
    several. It must have memory for 64 MB of blocks, or disk to spill to.

    Engines differ where the protocol says that they may. To leave a test out, override it with a reason::

        class TestMyEngine(EngineConformance):
            @pytest.mark.skip("one process: nothing can die alone")
            def test_name(self) -> None: ...
    """

    #: Values of ``TaskOptions.executor`` to run the tests with; one is enough for an engine that ignores it.
    executors: ClassVar[tuple[str, ...]] = ("process", "thread")

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Runs every test that has a parameter ``executor`` with each of ``executors``."""
        if "executor" in metafunc.fixturenames and metafunc.cls is not None:
            metafunc.parametrize("executor", metafunc.cls.executors)

    @pytest.fixture(autouse=True)
    def _engine_is_running(self, engine: Engine) -> None:
        """Makes every test run on the engine under test, also one that does not name it."""
