"""A shared folder: what the Hub and MLflow store of an adapted model, a card or a recipe."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from safetensors import SafetensorError
from safetensors.torch import load_model, save_model
from torch import nn

from holdfast import __version__
from holdfast.anchor import Card, read_card
from holdfast.connect.config import MOMENTS, README, STATE, WEIGHTS, Config, read_config, write_config
from holdfast.connect.model_card import model_card
from holdfast.estimators import ESTIMATORS
from holdfast.machine.folders import write_whole
from holdfast.model.adapt import adapt_with
from holdfast.model.adapted import AdaptedModel
from holdfast.model.guarded import GuardedModel
from holdfast.models import MODELS
from holdfast.models.base import RUNS_CODE
from holdfast.models.classifier import weights_digest
from holdfast.models.inputs import NamedInput
from holdfast.options.spec import Spec
from holdfast.recipes import ResolvedRecipe, resolve
from holdfast.records import SetupWarning
from holdfast.recovery import Recovery
from holdfast.registry import options_of
from holdfast.state import SavedStateError

# An adapted model, a card of moments, or a recipe by name or resolved.
Shared: TypeAlias = "AdaptedModel | Card | ResolvedRecipe | str"


def write_folder(
    item: Shared,
    folder: str | Path,
    *,
    network: str | None = None,
    weights: bool = False,
    results: str | Path | None = None,
    repo_id: str | None = None,
) -> None:
    """Write an adapted model, a card or a recipe to a folder in the layout of the Hugging Face Hub.

    Args:
        item: an adapted model, a card, or a recipe.
        folder: to write to.
        network: name of the source network, as `holdfast.models.load` takes it: a folder that names its network is read
            without it.
        weights: whether to add the weights of the source network.
        results: folder of runs whose tables the model card shows.
        repo_id: name that the card loads it by.

    >>> import tempfile, holdfast
    >>> folder = tempfile.mkdtemp()
    >>> write_folder(holdfast.adapt("digits_resnet", "tent"), folder, network="digits_resnet")
    >>> sorted(path.name for path in Path(folder).iterdir())
    ['README.md', 'adaptation.safetensors', 'config.json']
    """
    config, target = _config(item, network), Path(folder)
    if weights and not isinstance(item, AdaptedModel):
        raise ValueError(f"weights=True needs an adapted model, got a {config.kind}; leave weights out")
    target.mkdir(parents=True, exist_ok=True)
    if isinstance(item, AdaptedModel):
        item.save(target / STATE)
        if weights:
            save_model(_given_network(item), str(target / WEIGHTS))
    elif isinstance(item, Card):
        item.save(target / MOMENTS)
    write_config(target, config)
    text = model_card(config, repo_id=repo_id or target.name, results=None if results is None else Path(results))
    write_whole(target / README, text.encode())


def read_folder(
    folder: str | Path,
    model: nn.Module | str | None = None,
    *,
    trust_remote_code: bool = False,
    **building: Any,
) -> AdaptedModel | Card:
    """Read what `write_folder` wrote: a card, a model adapted as far as it was, or a model with a recipe of its own.

    Weights in the folder are loaded into a copy of the network.

    Args:
        folder: that `write_folder` wrote.
        model: the source network, needed unless the folder names it.
        trust_remote_code: whether a named network may run Python code of its own.
        **building: arguments of `adapt`: `source` and `holdout` for recipes that need them, `card`, `example`, `head`,
            `output`.

    >>> import tempfile, holdfast
    >>> folder, model = tempfile.mkdtemp(), holdfast.adapt("digits_resnet", "tent")
    >>> write_folder(model, folder, network="digits_resnet")
    >>> read_folder(folder).digest() == model.digest()
    True
    """
    path = Path(folder)
    config = read_config(path)
    if config.kind == "card":
        return read_card(path / MOMENTS)
    adapted = _built(config, _network(path, config, model, trust_remote_code), building)
    if config.kind == "adapted":
        adapted.load(path / STATE)
    return adapted


def _config(item: Shared, network: str | None) -> Config:
    named = None if network is None else Spec.parse(network).to_text()
    if isinstance(item, Card):
        samples = item.reference.samples
        return Config("card", __version__, named, item.weights, digest=item.digest, samples=samples)
    if isinstance(item, AdaptedModel):
        classifier = item.method.model
        return Config(
            "adapted",
            __version__,
            named,
            item.weights,
            recipe=item.recipe,
            labelling=_labelling(item),
            digest=item.digest(),
            input_kind=classifier.input_spec.kind,
            input_shape=list(classifier.input_spec.shape),
            classes=classifier.num_classes,
        )
    if not isinstance(item, str | ResolvedRecipe):
        raise TypeError(f"an adapted model, a card or a recipe can be shared, got a {type(item).__name__}")
    return Config("recipe", __version__, named, recipe=_plain(resolve(item) if isinstance(item, str) else item))


def _plain(recipe: ResolvedRecipe) -> dict[str, Any]:
    """Return the form of `AdaptedModel.recipe`, with the options that were given."""
    if isinstance(recipe.recovery, Recovery):
        raise ValueError(
            f"the recovery {type(recipe.recovery).__name__} is already built; pass its name and recovery_options"
        )
    return {
        "name": recipe.name,
        "preset": recipe.preset,
        "options": dict(recipe.options),
        "recovery": recipe.recovery,
        "recovery_options": dict(recipe.recovery_options),
        "estimators": {},
    }


def _labelling(model: AdaptedModel) -> dict[str, Any] | None:
    if not isinstance(model, GuardedModel):
        return None
    labelling = model.audit
    return {name: getattr(labelling, name) for name in options_of(type(labelling))}


def _given_network(model: AdaptedModel) -> nn.Module:
    """Return the source network as the caller gave it."""
    inner: nn.Module = model.source_network.module
    return inner.module if isinstance(inner, NamedInput) else inner


def _network(folder: Path, config: Config, given: nn.Module | str | None, trusted: bool) -> nn.Module:
    """Return the source network, given or built by its name, with the weights in the folder."""
    network = given if isinstance(given, nn.Module) else _named_network(given, config.network, trusted)
    if not (folder / WEIGHTS).is_file() or weights_digest(network) == config.weights:
        return network
    network = copy.deepcopy(network)
    try:
        load_model(network, str(folder / WEIGHTS))
    except (SafetensorError, RuntimeError) as error:
        raise SavedStateError(f"{folder / WEIGHTS} does not fit {type(network).__name__} ({error})") from error
    return network


def _named_network(given: str | None, stated: str | None, trusted: bool) -> nn.Module:
    """Return a network by the name that the caller gave, or by the one that the folder states."""
    name = given or stated
    if name is None:
        raise ValueError("the source network is not named in the folder; pass it as the second argument")
    spec = Spec.parse(name)
    if given is None and spec.name.partition(":")[0] in RUNS_CODE and not trusted:
        raise ValueError(
            f"the folder names the network {name!r}, which runs Python code of its own; pass the network as the second "
            "argument, or trust_remote_code=True if you trust its author"
        )
    network: nn.Module = spec.build(MODELS)
    return network.eval()


def _built(config: Config, network: nn.Module, building: Mapping[str, Any]) -> AdaptedModel:
    """Return a model with the recipe of a folder, before its state is loaded."""
    try:
        recipe = dict(config.recipe or {})
        resolved = resolve(
            recipe["name"],
            recovery=recipe["recovery"],
            recovery_options=recipe["recovery_options"],
            preset=recipe["preset"],
            **recipe["options"],
        )
        named = {name: dict(options) for name, options in recipe["estimators"].items()}
        watching = {name: ESTIMATORS[options.pop("name", name)](**options) for name, options in named.items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise SavedStateError(f"the recipe of the folder has no such structure ({error}); use another copy") from error
    kind: type[AdaptedModel] = AdaptedModel if config.labelling is None else GuardedModel
    with warnings.catch_warnings():
        if config.kind == "adapted":  # the state says what is known of the source
            warnings.filterwarnings("ignore", ".*has no source samples", SetupWarning)
        adapted = adapt_with(resolved, network, estimator=watching, build=kind, **building)
    return adapted.asking(**config.labelling or {}) if isinstance(adapted, GuardedModel) else adapted
