"""Children end with their parent, even if it is killed before they have imported the caller's program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from holdfast.machine.children import CHILDREN

PROGRAM = """\
import sys, time
from holdfast.machine.children import CHILDREN

if __name__ == "__mp_main__":  # in the child, which imports the program
    print("importing", flush=True)
    time.sleep(float(sys.argv[1]))
if __name__ == "__main__":
    process = CHILDREN.Process(target=time.sleep, args=(60,))
    process.start()
    print(process.pid, flush=True)
    process.join()
"""


@pytest.mark.parametrize("importing", [60, 0])
def test_a_child_ends_with_its_killed_parent(importing: int, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    parent = subprocess.Popen([sys.executable, program, str(importing)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    said = {parent.stdout.readline().strip() for _ in range(2)}
    child = int((said - {"importing"}).pop())
    try:
        parent.kill()
        parent.wait()
        end = time.monotonic() + 10
        while is_alive(child) and time.monotonic() < end:
            time.sleep(0.02)
        assert not is_alive(child)
    finally:
        parent.stdout.close()
        if is_alive(child):
            os.kill(child, signal.SIGKILL)


def test_a_child_leaves_ctrl_c_to_its_parent() -> None:
    ours, theirs = CHILDREN.Pipe()
    process = CHILDREN.Process(target=tell_handler, args=(theirs,))
    process.start()
    assert ours.recv() is True
    process.join()


def tell_handler(connection: Connection) -> None:
    connection.send(signal.getsignal(signal.SIGINT) == signal.SIG_IGN)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
