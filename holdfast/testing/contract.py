"""One line for each contract that is checked."""

from __future__ import annotations

import inspect
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from holdfast.records import SetupWarning


class InjectedError(RuntimeError):
    """An error that a contract raises on purpose."""


@contextmanager
def contract(sentence: str) -> Iterator[None]:
    """Print whether a contract holds; warnings about the set-up and tracebacks of injected errors are left out.

    >>> with contract("One and one are two."):
    ...     assert 1 + 1 == 2
    holds: One and one are two.
    """
    loggers = [logging.getLogger(name) for name in logging.root.manager.loggerDict if name.startswith("holdfast")]
    for logger in loggers:
        logger.addFilter(_not_injected)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SetupWarning)
            yield
    except AssertionError as error:
        print(f"FAILS: {sentence} {error}")
        raise
    finally:
        for logger in loggers:
            logger.removeFilter(_not_injected)
    print(f"holds: {sentence}")


def sentence_of(check: Callable[..., object]) -> str:
    """Return the first line of a function's docstring: what it checks."""
    return (inspect.getdoc(check) or check.__name__).split("\n")[0]


def _not_injected(record: logging.LogRecord) -> bool:
    return record.exc_info is None or not isinstance(record.exc_info[1], InjectedError)
