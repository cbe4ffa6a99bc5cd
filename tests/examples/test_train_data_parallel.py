"""The example of data-parallel training runs as a launcher starts it, where PyTorch is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_data_parallel.py"


@pytest.mark.parametrize("world", [1, 2])
def test_no_row_is_lost_or_repeated(world: int) -> None:
    pytest.importorskip("torch.distributed.run")
    launcher = (sys.executable, "-m", "torch.distributed.run", "--standalone")
    done = subprocess.run(
        [*launcher, f"--nproc_per_node={world}", str(EXAMPLE)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "weight 3.00, rows 27000 + 33000, " in done.stdout
    assert "Exception ignored" not in done.stderr
