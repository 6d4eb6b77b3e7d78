"""Job: one run of a suite as plain data, and the name of its folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator

from holdfast.benchmark.collapse import ScriptedCollapse
from holdfast.benchmark.intruders import ScriptedIntruders
from holdfast.machine.devices import MemoryFormat, Placement, Precision
from holdfast.options.own_code import OwnFile, files_used, loaded_files
from holdfast.options.ranges import Count
from holdfast.options.spec import Spec
from holdfast.recipes import ResolvedRecipe, resolve

Protocol: TypeAlias = Literal["online", "online-timed", "offline-fixed", "offline-oracle"]
Score: TypeAlias = Literal["macro_f1", "macro_roc_auc", "silhouette"]
OracleScore: TypeAlias = Literal["accuracy", "macro_f1", "macro_roc_auc"]

PLAIN_FIELDS = (
    *("card", "seed", "batch_size", "samples", "protocol", "epochs", "speed", "cost"),
    *("device", "precision", "memory_format"),
)


Entry = Annotated[Spec, BeforeValidator(Spec.parse)]


class WithSpec(BaseModel):
    """A Spec written in one mapping with keys that are the suite's own."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    spec: Entry

    @model_validator(mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        """Leave the suite's own keys, and move name, label and options into the Spec."""
        if isinstance(value, cls):
            return value
        if not isinstance(value, Mapping):
            return {"spec": value}
        if isinstance(value.get("spec"), Spec):  # written in Python
            return value
        own = {key: value[key] for key in value if key in cls.model_fields}
        return {"spec": {key: value[key] for key in value if key not in own}, **own}


class SourceData(WithSpec):
    """A number of samples of a data set that methods or estimators see before the first batch."""

    samples: Count = 512

    def to_json(self) -> dict[str, Any]:
        """Return the data set's mapping with the number of samples."""
        return {**self.spec.to_json(), "samples": self.samples}


LONGEST_NAME = 255  # bytes, of a file or folder


@dataclass(frozen=True)
class Job:
    """One run: model, stream, recipe, estimators and seed; it can be sent to another process."""

    suite: str  # name of the suite, and of its folder
    model: Spec  # name and options of the network
    stream: Spec  # name, label and options of the stream
    data: Spec  # that the stream draws from
    recipe: Spec  # name, label and options of the recipe
    estimators: tuple[Spec, ...] = ()  # names and options of the estimators that watch the model
    source: SourceData | None = None  # unlabelled samples for methods that need them
    holdout: SourceData | None = None  # labelled samples for estimators
    card: str | None = None  # the file with the moments of the model's own source data
    collapse: ScriptedCollapse | None = None  # a collapse that is scripted, to test recoveries
    intruders: ScriptedIntruders | None = None  # useless inputs that are scripted into the stream
    seed: int = 0  # of stream and method
    batch_size: int = 64  # samples that arrive together
    samples: int | None = None  # after which the stream is cut; None: the whole stream
    protocol: Protocol = "online"  # online, online-timed, offline-fixed or offline-oracle
    speed: float = 1.0  # of a timed stream: batches that arrive while the source predicts one
    cost: float | None = None  # of a step under online-timed, in forward passes; None: as it is counted
    epochs: int = 1  # of offline protocols
    scores: tuple[Score, ...] = ()  # of offline protocols, besides the accuracy
    oracle_score: OracleScore = "accuracy"  # by which offline-oracle chooses the epoch
    device: str = "cpu"  # auto, cpu, cuda, cuda:1, mps
    precision: Precision = "float32"  # of the network; other than float32 under autocast
    memory_format: MemoryFormat = "contiguous"  # of images: contiguous or channels_last
    index: int = 0  # in the suite: tables keep its order
    averages: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # name -> labels of streams
    imports: tuple[OwnFile, ...] = ()  # your own files that it depends on; before all that may refer to them
    known: InitVar[ResolvedRecipe | None] = None  # the recipe, if the suite has resolved it already

    def __post_init__(self, known: ResolvedRecipe | None) -> None:
        if self.suite in ("", ".", "..") or any(mark in self.suite for mark in "/\\\0"):
            raise ValueError(f"the name of a suite names its folder, so it cannot be {self.suite!r}; leave out slashes")
        if known is not None:
            vars(self)["resolved"] = known
        for name in (self.suite, self.name):
            if len(name.encode()) > LONGEST_NAME:
                raise ValueError(
                    f"a folder of these runs would have a name of {len(name.encode())} bytes, and file systems take "
                    f"{LONGEST_NAME}; shorten the names or labels in {name[:60]!r}…"
                )

    @property
    def label(self) -> str:
        """What a reader of the progress needs to know the job by."""
        timed = f", speed {self.speed:g}" if self.protocol == "online-timed" else ""
        return f"{self.recipe.label}, {self.stream.label}, {self.model.label}, seed {self.seed}{timed}"

    def folder(self, runs: Path) -> Path:
        """Return the folder of its run."""
        return runs / self.suite / self.name

    def is_finished(self, runs: Path) -> bool:
        """Return whether its run there has ended; the summary is written last."""
        return (self.folder(runs) / "summary.json").exists()

    @property
    def is_online(self) -> bool:
        """Whether it goes through the stream once; offline protocols adapt to a set for epochs."""
        return self.protocol in ("online", "online-timed")

    @cached_property
    def resolved(self) -> ResolvedRecipe:
        """The recipe with its names looked up and its options assigned."""
        return resolve(self.recipe.name, **self.recipe.options)

    @property
    def placement(self) -> Placement:
        """Where the job computes and how."""
        return Placement(self.device, self.precision, self.memory_format)

    @property
    def scripts(self) -> dict[str, Any]:
        """What goes wrong on the stream by script, and the score of the oracle unless it is the accuracy, as JSON."""
        scripts = {"collapse": self.collapse, "intruders": self.intruders}
        scripted = {name: script.model_dump() for name, script in scripts.items() if script is not None}
        return scripted | ({} if self.oracle_score == "accuracy" else {"oracle_score": self.oracle_score})

    @property
    def recipe_imports(self) -> tuple[OwnFile, ...]:
        """Your own files that only the recipe depends on, so that other recipes can be compared with it."""
        others = files_used(json.dumps({**self.to_json(), "suite": None, "recipe": None, "imports": None}))
        return tuple(file for file in self.imports if file not in others)

    @cached_property
    def name(self) -> str:
        """The name of the job's folder: readable, and unique because it ends with a digest of the job's content."""
        content = self.to_json()
        for key in ("suite", "place", "averages"):  # these do not change the run
            del content[key]
        if self.protocol == "online":
            for key in ("protocol", "epochs", "scores"):
                del content[key]
        content |= self.placement.described  # a run on cuda:1 is that on cuda
        if self.holdout is None:  # jobs without one keep the names they had before there was any
            del content["holdout"]
        digest = hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=4).hexdigest()
        protocol: list[str] = [] if self.protocol == "online" else [self.protocol]
        protocol += [f"speed{self.speed:g}"] if self.protocol == "online-timed" else []
        words = [self.recipe.label, self.stream.label, self.model.label, *protocol, f"seed{self.seed}", digest]
        return "-".join(word.replace("/", "_") for word in words)

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON holds it; data set and scripts are part of the stream, as in a suite."""
        card = {} if self.card is None else {"card": self.card}  # jobs without one keep their names
        timed = {"speed": self.speed, "cost": self.cost} if self.protocol == "online-timed" else {}
        return {
            "suite": self.suite,
            "model": self.model.to_json(),
            "stream": {**self.stream.to_json(), "data": self.data.to_json(), **self.scripts},
            "recipe": self.recipe.to_json(),
            "estimators": [estimator.to_json() for estimator in self.estimators],
            "source": None if self.source is None else self.source.to_json(),
            "holdout": None if self.holdout is None else self.holdout.to_json(),
            **card,
            **(
                {"imports": [{"name": file.name, "digest": file.digest} for file in self.imports]}
                if self.imports
                else {}
            ),
            "seed": self.seed,
            "batch_size": self.batch_size,
            "samples": self.samples,
            "protocol": self.protocol,
            **timed,
            "epochs": self.epochs,
            "scores": list(self.scores),
            **({key: getattr(self, key) for key in self.placement.described}),  # none for the CPU in float32
            "place": self.index,
            "averages": {name: list(labels) for name, labels in self.averages.items()},
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any], imports: tuple[OwnFile, ...] = ()) -> Job:
        """Return the job that `to_json` wrote, for example into a manifest; it names the files in `imports` only."""
        stream = dict(content["stream"])
        data, collapse, intruders = (stream.pop(key, None) for key in ("data", "collapse", "intruders"))
        oracle_score = stream.pop("oracle_score", "accuracy")
        source, holdout = (content.get(key) for key in ("source", "holdout"))
        return cls(
            suite=content["suite"],
            model=Spec.parse(content["model"]),
            stream=Spec.parse(stream),
            data=Spec.parse(data),
            recipe=Spec.parse(content["recipe"]),
            estimators=tuple(Spec.parse(entry) for entry in content["estimators"]),
            source=None if source is None else SourceData.model_validate(source),
            holdout=None if holdout is None else SourceData.model_validate(holdout),
            collapse=None if collapse is None else ScriptedCollapse(**collapse),
            intruders=None if intruders is None else ScriptedIntruders(**intruders),
            averages={name: tuple(labels) for name, labels in content.get("averages", {}).items()},
            scores=tuple(content.get("scores", ())),
            oracle_score=oracle_score,
            imports=imports,
            index=content.get("place", 0),
            **{key: content[key] for key in PLAIN_FIELDS if key in content},
        )


def with_own_files(job: Job) -> Job:
    """Return the job with those of your files that it depends on, or the job itself if there are none."""
    if not loaded_files():
        return job
    recipe = job.resolved
    used = files_used(json.dumps({**job.to_json(), "suite": None}), [recipe.published.method, str(recipe.recovery)])
    return replace(job, imports=used, known=recipe) if used else job
