"""The registry of streams: how each is built, and what is known about it beforehand."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, cast

from holdfast.options.problems import check
from holdfast.registry import Registry, parameters_of
from holdfast.streams.listed import ListedStream, builder_of
from holdfast.streams.stream import Stream

Build = TypeVar("Build", bound=Callable[..., Any])


@dataclass(frozen=True)
class StreamBuilder:
    """A registered stream: call it with a data set and options, which are checked, to build one."""

    elsewhere: ClassVar[Mapping[str, str]] = {
        "batch_size": "pass it to starting_at(batch_size=…) of the stream, or set it in the suite"
    }
    build: Callable[..., Stream]  # function that takes a data set and options, and returns a stream
    citation: str = ""  # author, venue and year
    needs_model: bool = False  # it takes `calibrate`, which measures the model that will be adapted
    extends: Callable[..., Stream] | None = None  # it accepts the options of this one too

    def __call__(self, *arguments: Any, **options: Any) -> Stream:
        """Build the stream."""
        passed = list(parameters_of(self))[: len(arguments)]
        check(self, options, owner=f"stream {self.build.__name__!r}", without=passed)
        return self.build(*arguments, **options)

    @property
    def summary(self) -> str:
        """The first paragraph of the docstring."""
        return (inspect.getdoc(self.build) or "").split("\n\n")[0]

    @property
    def __wrapped__(self) -> Callable[..., Stream]:
        return self.build  # whose signature and type hints are those of the builder


class StreamRegistry(Registry[StreamBuilder]):
    """The streams by name; third parties may add plain functions, through `register` or an entry point."""

    def register(
        self,
        name: str,
        *,
        alias: str | None = None,
        citation: str = "",
        needs_model: bool = False,
        extends: Callable[..., Stream] | None = None,
    ) -> Callable[[Build], Build]:
        """Register a function that builds a stream, as a decorator that has its options checked at each call.

        `extends` is the stream, or the function, that further keyword options are passed on to: `STREAMS["continual"]`.
        """

        def add(build: Build) -> Build:
            builder = StreamBuilder(_function(build), citation, needs_model, extends)
            super(StreamRegistry, self).register(name, alias=alias)(builder)
            if isinstance(build, type):  # a `ListedStream` stays as it is
                return build
            return cast(Build, functools.wraps(build)(lambda *arguments, **options: builder(*arguments, **options)))

        return add

    def adopted(self, plugin: Any) -> StreamBuilder:
        """Return an entry point's function as a builder."""
        return plugin if isinstance(plugin, StreamBuilder) else StreamBuilder(_function(plugin))


def _function(build: Any) -> Callable[..., Stream]:
    """Return the function that builds a stream, also of a class that lists its samples."""
    listed = isinstance(build, type) and issubclass(build, ListedStream)
    return builder_of(build) if listed else build


STREAMS = StreamRegistry("stream", "streams")
