"""A signal asks the block to stop that it arrives in, and no later one."""

from __future__ import annotations

import os
import signal

import pytest

from holdfast.machine.stopping import Stopped, stop_if_asked, stoppable, was_asked_to_stop


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGUSR1)


def test_a_signal_asks_one_block_to_stop_and_a_second_one_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.machine.stopping.GRACE", 600.0)  # longer than any test
    before = signal.getsignal(signal.SIGUSR1)
    for _ in range(2):
        with stoppable(signal.SIGUSR1):
            stop_if_asked()
            assert not was_asked_to_stop()
            interrupt()
            assert was_asked_to_stop()
            with pytest.raises(Stopped):
                stop_if_asked()
            with pytest.raises(Stopped):
                interrupt()
        assert not was_asked_to_stop()
        assert signal.getsignal(signal.SIGUSR1) is before
