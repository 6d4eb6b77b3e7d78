"""The registry of streams: how each is built, and what is known about it beforehand."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from holdfast.registry import Registry
from holdfast.streams.listed import ListedStream, builder_of
from holdfast.streams.stream import Stream

__all__ = ["STREAMS", "StreamBuilder", "StreamRegistry"]

Build = TypeVar("Build", bound=Callable[..., Any])


@dataclass(frozen=True)
class StreamBuilder:
    """A registered stream: call it with a data set and options to build one."""

    build: Callable[..., Stream]
    citation: str = ""
    needs_model: bool = False  # it takes `calibrate`, which measures the model that will be adapted
    extends: Callable[..., Stream] | None = None  # it accepts the options of this one too

    def __call__(self, *arguments: Any, **options: Any) -> Stream:
        """Build the stream."""
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
        """Register a function that builds a stream, or a `ListedStream`, as a decorator; it stays as it is.

        `extends` is the stream, or the function, that further keyword options are passed on to: `STREAMS["continual"]`.
        """

        def add(build: Build) -> Build:
            super(StreamRegistry, self).register(name, alias=alias)(
                StreamBuilder(_function(build), citation, needs_model, extends)
            )
            return build

        return add

    def adopted(self, plugin: Any) -> StreamBuilder:
        """Return an entry point's function as a builder."""
        return plugin if isinstance(plugin, StreamBuilder) else StreamBuilder(_function(plugin))


def _function(build: Any) -> Callable[..., Stream]:
    """Return the function that builds a stream, also of a class that lists its samples."""
    listed = isinstance(build, type) and issubclass(build, ListedStream)
    return builder_of(build) if listed else build


STREAMS = StreamRegistry("stream", "streams")
