"""The schema of a suite, and the jobs that it lists."""

from __future__ import annotations

import itertools
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from holdfast.benchmark.clock import read_costs
from holdfast.benchmark.collapse import ScriptedCollapse
from holdfast.benchmark.intruders import ScriptedIntruders
from holdfast.benchmark.job import Entry, Job, OracleScore, Protocol, Score, SourceData, WithSpec, with_own_files
from holdfast.machine.devices import MemoryFormat, Precision, check_device, resolve_device
from holdfast.options.plain_jobs import data_for, recipe_for
from holdfast.options.ranges import Count
from holdfast.options.spec import Spec
from holdfast.recipes import ResolvedRecipe, resolve


def costs_of(given: Any) -> Any:
    """Return the costs of recipes, read from a file or a folder of runs if it names one."""
    return read_costs(given) if isinstance(given, str) else given


class ModelEntry(WithSpec):
    """A model, and which streams and recipes of the suite it is for: all, or those whose label matches a pattern."""

    streams: tuple[str, ...] = ("*",)
    recipes: tuple[str, ...] = ("*",)
    batch_size: Count | None = None
    card: str | None = None  # a file that `holdfast card` wrote for it: the moments of its own source data

    def meets(self, stream: StreamEntry, recipe: Spec) -> bool:
        """Return whether the suite runs this model with this recipe on this stream."""
        wanted = ((stream.spec, self.streams), (recipe, self.recipes))
        return all(any(fnmatchcase(spec.label, pattern) for pattern in patterns) for spec, patterns in wanted)


class StreamEntry(WithSpec):
    """A stream and its data, and optionally its own batch size, its own recipes, and scripts of what goes wrong."""

    data: Entry
    batch_size: Count | None = None
    recipes: list[Entry] | None = Field(default=None, min_length=1)
    collapse: ScriptedCollapse | None = None
    intruders: ScriptedIntruders | None = None
    oracle_score: OracleScore = "accuracy"  # by which offline-oracle chooses the epoch: the score of the data set


class Suite(BaseModel):
    """A benchmark: every model × stream × recipe × seed × protocol is one job.

    Under `online` each batch is predicted, then adapted to, once. Under `online-timed` the stream does not wait: while
    a recipe adapts, the batches that arrive are predicted by its latest state and not adapted to, at each of `speeds`
    (batches that arrive while the source predicts one); `costs` are those of recipes in forward passes, as a mapping,
    a JSON file or a folder of online runs, and by default what each step counts. Under `offline-fixed` the model adapts
    to the whole stream for `epochs` epochs and then predicts it, with other draws of its corruptions; under
    `offline-oracle` the epoch that predicts is chosen with the labels.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    summary: str = ""
    imports: list[str] = []  # your own Python files, relative to the suite file, loaded first
    protocol: list[Protocol] = Field(default=["online"], min_length=1)
    speeds: list[Annotated[float, Field(gt=0, allow_inf_nan=False)]] = Field(default=[1.0], min_length=1)
    costs: Annotated[dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]], BeforeValidator(costs_of)] = {}
    epochs: Count = 1  # of offline protocols; a preset that was published with its own keeps them
    scores: list[Score] = []  # of the predictions under offline protocols, besides the accuracy
    models: list[ModelEntry] = Field(min_length=1)
    streams: list[StreamEntry] = Field(min_length=1)
    recipes: list[Entry] = Field(min_length=1)
    estimators: list[Entry] = []
    source: SourceData | None = None  # unlabelled, for methods; `stream` is the beginning of the stream itself
    holdout: SourceData | None = None  # labelled, for estimators; of methods only the moments are for them
    seeds: list[int] = Field(default=[0], min_length=1)
    batch_size: Count = 64
    samples: Count | None = None  # cuts streams to this length; endless streams need it
    device: Annotated[str, AfterValidator(check_device)] = "cpu"  # auto, cpu, cuda, cuda:1, mps
    precision: Precision = "float32"  # the others under autocast
    memory_format: MemoryFormat = "contiguous"
    averages: dict[str, list[str]] = {}  # beside the average over all streams: name -> labels of some
    scales: dict[str, dict[str, Any]] = {}  # overrides by name, for runs of another size

    @field_validator("protocol", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    def resolved(self, recipe: Spec) -> ResolvedRecipe:
        """Return a recipe with its names looked up and its options assigned; each is resolved once."""
        known = self._recipes.get(recipe)
        return known or self._recipes.setdefault(recipe, resolve(recipe.name, **recipe.options))

    @cached_property
    def _recipes(self) -> dict[Spec, ResolvedRecipe]:
        return {}

    def jobs(self) -> list[Job]:
        """Return the jobs, all recipes of one stream and seed together."""
        combinations = [
            (*chosen, speed, recipe, self.resolved(recipe))
            for chosen in itertools.product(self.protocol, self.models, self.streams, self.seeds)
            for speed in (self.speeds if chosen[0] == "online-timed" else [1.0])
            for entry in chosen[2].recipes or self.recipes
            if chosen[1].meets(chosen[2], entry)
            for recipe in [recipe_for(entry, chosen[2].spec)]
        ]
        jobs = [
            Job(
                suite=self.name,
                model=model.spec,
                stream=stream.spec,
                data=data_for(stream.data, seed),
                recipe=recipe,
                estimators=tuple(self.estimators),
                source=self.source,
                holdout=self.holdout,
                card=model.card,
                collapse=stream.collapse,
                intruders=stream.intruders,
                seed=seed,
                batch_size=stream.batch_size or model.batch_size or self.batch_size,
                samples=self.samples,
                protocol=protocol,
                speed=speed,
                cost=self.costs.get(recipe.label) if protocol == "online-timed" else None,
                epochs=1 if protocol in ("online", "online-timed") else known.epochs or self.epochs,
                scores=() if protocol in ("online", "online-timed") else tuple(self.scores),
                oracle_score=stream.oracle_score if protocol == "offline-oracle" else "accuracy",
                device=resolve_device(self.device),
                precision=self.precision,
                memory_format=self.memory_format,
                index=index,
                averages={name: tuple(labels) for name, labels in self.averages.items()},
                known=known,
            )
            for index, (protocol, model, stream, seed, speed, recipe, known) in enumerate(combinations)
        ]
        return [with_own_files(job) for job in jobs]
