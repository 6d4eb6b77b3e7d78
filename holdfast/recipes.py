"""Published combinations by name, and the door: `adapt`."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from holdfast.adapted import AdaptedModel
from holdfast.estimators import ESTIMATORS, Estimator
from holdfast.methods import METHODS, Method, preset_for
from holdfast.models.classifier import Classifier, weights_digest
from holdfast.models.normalised import unwrapped
from holdfast.recovery import RECOVERIES, Recovery
from holdfast.registry import Registry, UnknownNameError, check_options, nearest, options_of

__all__ = ["RECIPES", "Recipe", "Watching", "adapt", "estimator_named", "recipe_names", "recipe_of"]

# One estimator, several, or several under names of one's own.
Watching: TypeAlias = "str | Estimator | Sequence[str | Estimator] | Mapping[str, str | Estimator] | None"


@dataclass(frozen=True)
class Recipe:
    """A method with the recovery it was published with."""

    method: str
    recovery: str
    summary: str
    citation: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)  # of the method
    recovery_options: Mapping[str, Any] = field(default_factory=dict)


RECIPES: Registry[Recipe] = Registry("recipe", "recipes")
RECIPES.register("rdumb")(
    Recipe("eta", "periodic", "ETA with a full reset every 1000 batches.", "Press et al., NeurIPS 2023")
)
RECIPES.register("sar")(
    Recipe("sar", "loss_collapse", "SAR with a reset when the loss has collapsed.", "Niu et al., ICLR 2023")
)
RECIPES.register("cotta")(
    Recipe("cotta", "stochastic", "CoTTA with its stochastic restoration of weights.", "Wang et al., CVPR 2022")
)


def recipe_names() -> list[str]:
    """Return every name that `adapt` takes: methods, then recipes.

    >>> "tent" in recipe_names() and "rdumb" in recipe_names()
    True
    """
    return list(dict.fromkeys([*METHODS.names(), *RECIPES.names()]))


def recipe_of(name: str) -> Recipe:
    """Return a recipe by name; a method on its own is one that never goes back.

    >>> recipe_of("rdumb").method, recipe_of("tent").recovery
    ('eta', 'never')
    """
    return RECIPES[name] if name in RECIPES else Recipe(name, "never", "")


def adapt(
    model: nn.Module,
    method: str | type[Method] = "rdumb",
    *,
    estimator: Watching = None,
    recovery: str | Recovery | None = None,
    preset: str | None = None,
    source: Iterable[Tensor | Sequence[Tensor]] | None = None,
    holdout: Iterable[Tensor | Sequence[Tensor]] | None = None,
    example: Tensor | None = None,
    head: str | None = None,
    in_place: bool = False,
    **options: Any,
) -> AdaptedModel:
    """Return a classifier that adapts itself to the inputs it meets; `model` itself is left as it is.

    `method` is a method or recipe by name (`holdfast list methods`), or a `Method` class of your own; further keywords
    are its options, or its recovery's. `preset` names a published setting; without it one is chosen by the number of
    classes and the normalisation. `estimator` is one or several, by name or built, or a mapping of names of your own to
    them, so that one can watch twice with other options. `source` are unlabelled source inputs, for methods that need
    them. `holdout` are held-out source data, (inputs, labels) or inputs alone, for estimators that need them; no method
    ever sees them. `example` (a batch of inputs) and `head` (the name of the last layer) are asked for only when
    probing the model cannot find them.

    >>> from holdfast.models.tiny import tiny_resnet
    >>> model = adapt(tiny_resnet(), "tent", lr=1e-4)
    >>> model(torch.rand(4, 3, 32, 32)).shape
    torch.Size([4, 10])
    """
    name = method if isinstance(method, str) else METHODS.name_of(method)
    recipe = recipe_of(name)
    kind = method if isinstance(method, type) else _method(recipe.method)
    if kind.needs_source and source is None:
        raise ValueError(
            f"{name!r} needs unlabelled source inputs before the first batch: pass source=[inputs, …] (a few hundred "
            "will do), or choose a method without them, such as 'eta'"
        )
    known = options_of(kind)
    recovery = recovery or recipe.recovery
    known_to_recovery = {} if isinstance(recovery, Recovery) else options_of(RECOVERIES[recovery])
    check_options(f"{name!r}", options, [*known, *known_to_recovery])
    with torch.inference_mode(False):
        weights = weights_digest(model)
        network = unwrapped(model)  # what torch.compile made of it could not be changed layer by layer
        classifier = Classifier(network if in_place else copy.deepcopy(network), example=example, head=head)
        preset, published = _published(kind, classifier, preset)
        recovery = _build_recovery(recovery, recipe, published, options)
        estimators = _build_estimators(estimator, recovery, options)
        source = None if source is None else list(source)
        holdout = _holdout_for(estimators, holdout, source)
        for watching in estimators.values():
            watching.prepare(classifier)  # before the method changes its layers
        adapted = AdaptedModel(
            kind(classifier, **_taken(known, published, recipe.options, options)),
            estimators=estimators,
            recovery=recovery,
            name=name,
            preset=preset,
            weights=weights,
        )
        if source is not None:
            adapted.fit_source(source)
        adapted.fit_holdout(holdout)
    return adapted


def _method(name: str) -> type[Method]:
    if name in METHODS:
        return METHODS[name]
    raise UnknownNameError(f"unknown method {name!r}; {nearest(name, recipe_names())}")


def _build_recovery(
    recovery: str | Recovery, recipe: Recipe, preset: Mapping[str, Any], options: Mapping[str, Any]
) -> Recovery:
    """Return the recovery; a preset may hold options of the one it was published with, and a seed is for both."""
    if isinstance(recovery, Recovery):
        return recovery
    published = {**preset, **recipe.recovery_options} if recovery == recipe.recovery else {}
    return RECOVERIES[recovery](**_taken(options_of(RECOVERIES[recovery]), published, options))


def _taken(known: Collection[str], *layers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that somebody takes; later layers win."""
    return {key: value for layer in layers for key, value in layer.items() if key in known}


def _build_estimators(given: Watching, recovery: Recovery, options: Mapping[str, Any]) -> dict[str, Estimator]:
    """Return the estimators by name: those asked for, and those whose estimates the recovery reads."""
    several = [] if given is None else [given] if isinstance(given, (str, Estimator)) else given
    if not isinstance(several, Mapping):
        several = {entry if isinstance(entry, str) else ESTIMATORS.name_of(type(entry)): entry for entry in several}
    wanted = {**{name: name for name in recovery.reads if name not in several}, **several}
    seed = _taken({"seed"}, options)  # the method's, for estimators that are given by name and draw at random
    built = {
        name: estimator_named(entry, **seed) if isinstance(entry, str) else entry for name, entry in wanted.items()
    }
    for name in recovery.reads if recovery.reads_gain else ():
        if not built[name].compares:
            raise ValueError(
                f"{RECOVERIES.name_of(type(recovery))} reads a gain, and the estimator {name!r} gives none; "
                "read 'anchored' with compare_every of at least 1"
            )
    return built


def estimator_named(name: str, *, seed: int = 0, **options: Any) -> Estimator:
    """Return an estimator; the seed goes only to one that draws at random.

    >>> vars(estimator_named("aetta", seed=3))["seed"], estimator_named("gde", seed=3)
    (3, Gde())
    """
    kind = ESTIMATORS[name]
    return kind(**_taken(options_of(kind), {"seed": seed}), **options)


def _holdout_for(
    estimators: Mapping[str, Estimator],
    holdout: Iterable[Tensor | Sequence[Tensor]] | None,
    source: Sequence[Tensor | Sequence[Tensor]] | None,
) -> Iterable[Tensor | Sequence[Tensor]]:
    """Return the held-out data; where labels are not needed, inputs for the method will do."""
    if holdout is not None:
        return holdout
    for name, estimator in estimators.items():
        if estimator.needs == "labels" or (estimator.needs == "inputs" and source is None):
            entry = "(inputs, labels)" if estimator.needs == "labels" else "inputs"
            raise ValueError(
                f"the estimator {name!r} needs held-out source data before the first batch: pass holdout=[{entry}, …] "
                "(a few hundred will do), or choose one without them, such as 'aetta' with its published rate"
            )
    return [batch if isinstance(batch, Tensor) else batch[0] for batch in source or ()]


def _published(kind: type[Method], model: Classifier, preset: str | None) -> tuple[str | None, Mapping[str, Any]]:
    """Return the name of a preset and its options."""
    if preset is None:
        preset = preset_for(kind, model)
    elif preset not in kind.presets:
        raise UnknownNameError(f"{METHODS.name_of(kind)!r} has no preset {preset!r}; {nearest(preset, kind.presets)}")
    return preset, kind.presets[preset] if preset else {}
