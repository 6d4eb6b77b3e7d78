"""The model card: the README of a shared folder, with the metadata that the Hub reads."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from holdfast.connect.config import Config
from holdfast.methods import METHODS
from holdfast.options.spec import Spec
from holdfast.recipes import recipe_of
from holdfast.report import Table, WordTable, make_tables, read_runs, to_markdown

KINDS = {
    "adapted": "The state of a classifier that adapts to its inputs at test time.",
    "card": "The moments of a network's own source data, from which adaptation at test time follows its inputs.",
    "recipe": "A recipe for adapting a classifier to its inputs at test time.",
}
TASKS = {"image": "image-classification", "audio": "audio-classification"}


def model_card(config: Config, *, repo_id: str, results: Path | None = None) -> str:
    """Return the model card of a folder; `results` is a folder of runs whose tables are shown.

    >>> "# me/resets" in model_card(Config("recipe", "0.2.0", recipe={"name": "rdumb"}), repo_id="me/resets")
    True
    """
    tables = [] if results is None else make_tables(read_runs(results), "accuracy")
    metadata = yaml.safe_dump(_metadata(config, repo_id, tables), sort_keys=False, allow_unicode=True)
    parts = [f"# {repo_id}", KINDS[config.kind], to_markdown(_facts(config)), _usage(config, repo_id)]
    if tables:
        parts += ["## Results", *map(to_markdown, tables)]
    return f"---\n{metadata}---\n" + "".join(f"\n{part.rstrip()}\n" for part in parts)


def _metadata(config: Config, repo_id: str, tables: Sequence[Table]) -> dict[str, Any]:
    task, base = TASKS.get(config.input_kind or ""), _base_model(config.network)
    rows = list(_results(config, tables, task or "other"))
    return {
        "library_name": "holdfast",
        "tags": ["test-time-adaptation", f"holdfast-{config.kind}"],
        **({} if task is None else {"pipeline_tag": task}),
        **({} if base is None else {"base_model": base}),
        **({"model-index": [{"name": repo_id, "results": rows}]} if rows else {}),
    }


def _base_model(network: str | None) -> str | None:
    """Return the repository of a network that comes from the Hub.

    >>> _base_model("timm:resnet18.a1_in1k"), _base_model("digits_resnet")
    ('timm/resnet18.a1_in1k', None)
    """
    zoo, _, name = ("" if network is None else Spec.parse(network).name).partition(":")
    if zoo == "timm" and name:
        return f"timm/{name}"
    return name if zoo == "hf" and name.count("/") == 1 and not name.startswith((".", "/", "~")) else None


def _results(config: Config, tables: Sequence[Table], task: str) -> Iterator[dict[str, Any]]:
    """Yield the accuracy of this recipe on each stream, as the Hub's model index has it."""
    own = (config.recipe or {}).get("name")
    for table in tables:
        for line in table.lines:
            if line.recipe.name == own and not math.isnan(line.mean):
                yield {
                    "task": {"type": task},
                    "dataset": {"name": table.title, "type": table.manifest.stream.name},
                    "metrics": [{"type": "accuracy", "name": f"accuracy of {line.label}, %", "value": line.mean}],
                }


def _facts(config: Config) -> WordTable:
    recipe = config.recipe or {}
    options = {**recipe.get("options", {}), **recipe.get("recovery_options", {})}
    facts = {
        "recipe": recipe.get("name"),
        "preset": recipe.get("preset"),
        "recovery": recipe.get("recovery"),
        "options": ", ".join(f"{name}={value!r}" for name, value in options.items()),
        "estimators": ", ".join(recipe.get("estimators", {})),
        "source network": config.network,
        "digest of its weights": config.weights,
        "digest of the state" if config.kind == "adapted" else "digest of the moments": config.digest,
        "source samples": config.samples,
        "input": config.input_shape and f"{config.input_kind} {tuple(config.input_shape)}",
        "classes": config.classes,
        "fails when": _limits(recipe.get("name")),
        "holdfast": config.holdfast,
    }
    rows = [[name, str(value)] for name, value in facts.items() if value not in (None, "")]
    return WordTable("What it is", ["", "value"], rows)


def _limits(name: str | None) -> str:
    """Return when a recipe fails, as its method says."""
    if name is None:
        return ""
    recipe = recipe_of(name)
    return recipe.fails_when or METHODS[recipe.method].fails_when


def _usage(config: Config, repo_id: str) -> str:
    needed = "" if config.network is not None else ", network"
    built = "" if config.network is not None else "  # network: the torch module that it belongs to"
    if config.kind == "card":
        code = f'card = holdfast.from_hub("{repo_id}")\nmodel = holdfast.adapt(network, card=card)'
    else:
        code = f'model = holdfast.from_hub("{repo_id}"{needed}){built}\nlogits = model(inputs)  # predicts, then adapts'
    return f'## Use\n\n```python\n# pip install "holdfast[hf]"\nimport holdfast\n\n{code}\n```'
