"""A signal asks the block to stop that it arrives in, and no later one."""

from __future__ import annotations

import os
import signal

import pytest

from holdfast.machine.stopping import Stopped, stop_if_asked, stoppable, was_asked_to_stop


def test_a_signal_stops_one_block_and_a_second_one_at_once() -> None:
    before = signal.getsignal(signal.SIGUSR1)
    for signals in (1, 2, 0, 1):
        stop_if_asked()
        with stoppable(signal.SIGUSR1):
            if signals == 2:
                with pytest.raises(Stopped):
                    for _ in range(signals):
                        os.kill(os.getpid(), signal.SIGUSR1)
            elif signals:
                os.kill(os.getpid(), signal.SIGUSR1)
            assert was_asked_to_stop() is (signals > 0)
            if signals:
                with pytest.raises(Stopped):
                    stop_if_asked()
        assert not was_asked_to_stop()
        assert signal.getsignal(signal.SIGUSR1) is before
