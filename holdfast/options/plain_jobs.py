"""The jobs of a suite as plain data, from its file alone: as a manifest keeps them, without importing torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import product
from typing import Any

from holdfast.options.spec import Spec

OF_MODELS = frozenset({"streams", "recipes", "batch_size", "card"})  # keys of models and streams that are no options
OF_STREAMS = frozenset({"recipes", "batch_size", "oracle_score"})
INTRUDERS = {"every_batches": 3, "share": 1.0, "mixed": False}  # defaults of a suite's schema


def plain_jobs(suite: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the jobs of a suite's content, with the defaults of its schema; nothing is checked."""
    protocols = suite.get("protocol", "online")
    chosen = product(
        [protocols] if isinstance(protocols, str) else protocols,
        suite["models"],
        suite["streams"],
        suite.get("seeds", [0]),
    )
    for protocol, model, stream, seed in chosen:
        of_model, of_stream = model if isinstance(model, Mapping) else {}, _spec(stream, OF_STREAMS)
        speeds = suite.get("speeds", [1.0]) if protocol == "online-timed" else [1.0]
        for speed, entry in product(speeds, stream.get("recipes") or suite["recipes"]):
            job = {
                "model": _spec(model, OF_MODELS).to_json(),
                "stream": of_stream.to_json() | {"data": data_for(Spec.parse(stream["data"]), seed).to_json()},
                "recipe": recipe_for(Spec.parse(entry), of_stream).to_json(),
                "estimators": [Spec.parse(estimator).to_json() for estimator in suite.get("estimators", [])],
                **{key: _samples(suite.get(key)) for key in ("source", "holdout")},
                "card": of_model.get("card"),
                "seed": seed,
                "batch_size": stream.get("batch_size") or of_model.get("batch_size") or suite.get("batch_size", 64),
                "samples": suite.get("samples"),
                "protocol": protocol,
                **({"speed": speed} if protocol == "online-timed" else {}),
                "epochs": 1 if protocol.startswith("online") else suite.get("epochs", 1),
            }
            if "intruders" in stream:
                job["stream"]["intruders"] = INTRUDERS | stream["intruders"]
            if protocol == "offline-oracle" and stream.get("oracle_score", "accuracy") != "accuracy":
                job["stream"]["oracle_score"] = stream["oracle_score"]
            labels = (("streams", job["stream"]["label"]), ("recipes", job["recipe"]["label"]))
            if all(any(fnmatchcase(label, name) for name in of_model.get(key, ["*"])) for key, label in labels):
                yield job


def _spec(given: Any, besides: frozenset[str]) -> Spec:
    """Return an entry of a suite without the keys that are the suite's own."""
    return Spec.parse({key: given[key] for key in given if key not in besides} if isinstance(given, Mapping) else given)


def _samples(given: Any) -> dict[str, Any] | None:
    return None if given is None else {"samples": 512} | Spec.parse(given).to_json()


def data_for(data: Spec, seed: int) -> Spec:
    """Return a data set for one seed: `{seed}` in its folders and files stands for the seed.

    >>> data_for(Spec("ccc_shards", options={"paths": "ccc/run_{seed}"}), 44).options
    {'paths': 'ccc/run_44'}
    """
    named = {
        key: value.replace("{seed}", str(seed)) if isinstance(value, str) else value
        for key, value in data.options.items()
    }
    return Spec(data.name, data.label, named)


def recipe_for(recipe: Spec, stream: Spec) -> Spec:
    """Return a recipe for one stream: `{stream}` in the name of its preset stands for the stream's label.

    >>> recipe_for(Spec("dhauds", options={"preset": "amaut-{stream}"}), Spec("dhauds", "sc2-WHN-L1")).options
    {'preset': 'amaut-sc2-WHN-L1'}
    """
    preset = recipe.options.get("preset")
    if not isinstance(preset, str):
        return recipe
    return Spec(recipe.name, recipe.label, {**recipe.options, "preset": preset.replace("{stream}", stream.label)})
