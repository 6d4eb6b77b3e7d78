"""The executor `ray`: items as Ray tasks, on this machine or on a cluster with a shared file system."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from holdfast.benchmark.executors.base import EXECUTORS, Executor, Lost, Tell
from holdfast.machine.extras import extra
from holdfast.machine.stopping import stop_if_asked, stoppable

RETRIES = 5  # of a task whose worker or node dies; its runs resume from their last checkpoint
POLL = 0.5  # seconds after which progress is reported and a stop is noticed
GPUS = "HOLDFAST_RAY_GPUS"  # share of a GPU for each task, such as 0.25; by default none


def ray(work: Callable[[Any], Any], items: Sequence[Any], workers: int = 2) -> Iterator[Any]:
    """Run items as Ray tasks, at most `workers` at a time; a task whose node dies starts again on another.

    A cluster is that of `RAY_ADDRESS`, or the one already connected to; without either, Ray runs on this machine.
    """
    engine = _connected()
    options = {"num_cpus": 1, "num_gpus": float(os.environ.get(GPUS, 0)), "max_retries": RETRIES}
    task = engine.remote(**options)(_worked)
    left = list(items)
    running: dict[Any, Any] = {}
    sent = engine.put(work)
    try:
        while left or running:
            stop_if_asked()
            while left and len(running) < workers:
                item = left.pop(0)
                running[task.remote(sent, item)] = item
            ready, _ = engine.wait(list(running), timeout=POLL)
            for reference in ready:
                item = running.pop(reference)
                try:
                    yield engine.get(reference)
                except engine.exceptions.RayError as error:
                    yield Lost(item, f"its Ray task died {RETRIES + 1} times ({type(error).__name__})")
    finally:
        for reference in running:
            engine.cancel(reference, force=True)


def _worked(work: Callable[[Any], Any], item: Any) -> Any:
    """Work on an item in a Ray worker, which stops by itself when its driver is gone."""
    with stoppable():
        return work(item)


@contextmanager
def _collected(tell: Tell) -> Iterator[Tell]:
    """Yield a function that tasks can call on any node; an actor keeps what they say until it is collected here."""
    engine = _connected()
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(engine.get_runtime_context().get_node_id(), soft=False)  # other nodes may die
    inbox = engine.remote(num_cpus=0, scheduling_strategy=here)(_Inbox).remote()
    done = threading.Event()

    def listen() -> None:
        while not done.wait(POLL):
            collect()

    def collect() -> None:
        try:
            for progress in engine.get(inbox.collect.remote(), timeout=10 * POLL):
                tell(progress)
        except engine.exceptions.RayError:  # it is busy; the next time there is more
            pass

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    try:
        yield partial(_send, inbox)
    finally:
        done.set()
        listener.join()
        collect()
        engine.kill(inbox)


class _Inbox:
    """Keeps the newest progress of each job."""

    def __init__(self) -> None:
        self._newest: dict[str, Any] = {}

    def put(self, progress: Any) -> None:
        self._newest[progress.job] = progress

    def collect(self) -> list[Any]:
        newest, self._newest = self._newest, {}
        return list(newest.values())


def _send(inbox: Any, progress: Any) -> None:
    """Send progress to an inbox without waiting for it."""
    inbox.put.remote(progress)


def _connected() -> Any:
    engine = extra("ray", "ray", "the executor ray needs")
    if not engine.is_initialized():
        engine.init(log_to_driver=False, include_dashboard=False, configure_logging=False)
    return engine


EXECUTORS.register("ray")(
    Executor(ray, shares_memory=False, summary="Ray tasks on a cluster; a node may die.", reach=_collected)
)
