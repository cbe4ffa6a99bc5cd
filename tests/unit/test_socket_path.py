"""Sockets whose paths are longer than a system call takes."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from exoshuffle.dataset.splitting import socket_path
from exoshuffle.errors import OptionsError


@pytest.mark.parametrize("length", [1, 250])
def test_a_socket_lies_where_it_is_wanted(length: int, tmp_path: Path) -> None:
    folder = tmp_path / ("d" * length)
    folder.mkdir()
    open_files = len(os.listdir("/proc/self/fd"))
    with socket.socket(socket.AF_UNIX) as bound, socket.socket(socket.AF_UNIX) as caller:
        with socket_path.within_limit(str(folder / "door")) as path:
            bound.bind(path)
        bound.listen()
        with socket_path.within_limit(str(folder / "door")) as path:
            caller.connect(path)
    assert (folder / "door").is_socket()
    assert len(os.listdir("/proc/self/fd")) == open_files


def test_a_system_that_names_no_open_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_path, "_OPEN_FILES", "/nowhere")
    message = r"the socket '/d.* has a path of 105 bytes, and .* is 103; set TMPDIR, or door= of"
    with pytest.raises(OptionsError, match=message), socket_path.within_limit("/" + "d" * 104):
        pass
