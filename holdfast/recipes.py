"""Recipes: published combinations of method and recovery by name, with their options assigned."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.methods import METHODS, Method, preset_for
from holdfast.models.classifier import Classifier
from holdfast.options.problems import check_built, problems
from holdfast.recovery import RECOVERIES, Recovery
from holdfast.registry import OWN, Registry, UnknownNameError, nearest, options_of, parameters_of

__all__ = [
    "RECIPES",
    "Recipe",
    "RecipeError",
    "ResolvedRecipe",
    "recipe_names",
    "recipe_of",
    "resolve",
    "taken",
]

MOVED = ("Watching", "adapt", "adapt_with", "check_order", "estimator_named")  # to holdfast.model.adapt, until 0.4


@dataclass(frozen=True)
class Recipe:
    """A method with the recovery it was published with."""

    method: str  # name of the method
    recovery: str  # name of the recovery; "never" for none
    summary: str  # one sentence for the catalogue
    citation: str = ""  # author, venue and year
    options: Mapping[str, Any] = field(default_factory=dict)  # of the method
    recovery_options: Mapping[str, Any] = field(default_factory=dict)  # of the recovery
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # besides those of the method
    use_when: str = ""  # empty: as the method
    fails_when: str = ""  # empty: as the method


RECIPES: Registry[Recipe] = Registry("recipe", "recipes")
RECIPES.register("rdumb")(
    Recipe(
        "eta",
        "periodic",
        "ETA with a full reset every 1000 batches.",
        "Press et al., NeurIPS 2023",
        use_when="streams are long and no source data is available",
        fails_when="classes are correlated in time, which a reset does not change; or it declines within a period: at "
        "the rate for CIFAR it is worse than batch_norm on CCC",
    )
)
RECIPES.register("sar")(
    Recipe("sar", "loss_collapse", "SAR with a reset when the loss has collapsed.", "Niu et al., ICLR 2023")
)
RECIPES.register("cotta")(
    Recipe("cotta", "stochastic", "CoTTA with its stochastic restoration of weights.", "Wang et al., CVPR 2022")
)
_COME: dict[str, Any] = {
    "citation": "Zhang et al., ICLR 2025",
    "options": {"objective": "come"},
    "fails_when": "most source predictions are wrong: it then stays near them; gains differ from network to network",
}
RECIPES.register("come_tent")(
    Recipe(
        "tent",
        "never",
        "TENT on the entropy of predictions with an explicit 'unknown', which delays a collapse.",
        use_when="streams are long or batches of few classes, so that TENT would collapse, at the cost of TENT",
        **{
            **_COME,
            "fails_when": "the learning rate is too high: at ten times its rate it ends at chance, as TENT does; or "
            "most source predictions are wrong: it then stays near them",
        },
    )
)
RECIPES.register("come_eata")(
    Recipe(
        "eata",
        "never",
        "EATA on the entropy of predictions with an explicit 'unknown'.",
        use_when="as EATA, on transformers under large shifts, where it gains most in the paper",
        **_COME,
    )
)
RECIPES.register("come_sar")(
    Recipe(
        "sar",
        "loss_collapse",
        "SAR on the entropy of predictions with an explicit 'unknown'.",
        use_when="as SAR, on transformers under large shifts, where it gains most in the paper",
        **_COME,
    )
)


def _asr(
    base: Mapping[str, Any], first: tuple[float, float], then: tuple[float, float], hard: tuple[float, float], a0: float
) -> dict[str, dict[str, Any]]:
    """Return ASR's settings for ViT-B/16, which presume that the difficulty is known: (m0, r1) for each."""
    return {
        f"ccc-{difficulty}-vit": {**base, "start_share": a0, "flip_momentum": m0, "kept_slope": r1}
        for difficulty, (m0, r1) in zip(("easy", "medium", "hard"), (first, then, hard), strict=True)
    }


_NESTEROV = {"optimizer": "sgd", "lr": 2.5e-4, "momentum": 0.9, "nesterov": True}
_ASR: dict[str, Any] = {
    "recovery": "asr",
    "citation": "Lim et al., ICLR 2026",
    "use_when": "streams are so long that a collapse is certain, and it is unknown how often to reset",
    "fails_when": "classes are correlated in time: a healthy batch of few classes looks concentrated and is reset",
}
RECIPES.register("asr_eta")(
    Recipe(
        "eta",
        summary="ETA that resets its last layers when predictions concentrate, and is pulled back to what it learnt.",
        options={"nesterov": True},
        presets=_asr({**_NESTEROV, "redundancy_margin": 0.05}, (0.99, 50.0), (0.99, 50.0), (0.9995, 0.1), 0.005),
        **_ASR,
    )
)
RECIPES.register("asr_roid")(
    Recipe(
        "roid",
        summary="ROID that resets its last layers when predictions concentrate, and is pulled back to what it learnt.",
        presets=_asr(_NESTEROV, (0.9, 20.0), (0.9, 0.1), (0.999, 0.1), 0.0005),
        **_ASR,
    )
)


def recipe_names() -> list[str]:
    """Return every name that `adapt` takes: methods, then recipes.

    >>> "tent" in recipe_names() and "rdumb" in recipe_names()
    True
    """
    return list(dict.fromkeys([*METHODS.names(), *RECIPES.names()]))


def recipe_of(name: str) -> Recipe:
    """Return a recipe by name; a method by itself is a recipe without recovery.

    >>> recipe_of("rdumb").method, recipe_of("tent").recovery
    ('eta', 'never')
    """
    return RECIPES[name] if name in RECIPES else Recipe(name, "never", "")


class RecipeError(UnknownNameError):
    """A name or option of a recipe is wrong; `key` is the one at fault.

    Args:
        key: the name or option at fault.
        message: what is wrong and what to do.
    """

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


@dataclass(frozen=True)
class ResolvedRecipe:
    """A recipe with every name looked up and every option assigned to the method or to the recovery."""

    name: str  # as it was asked for
    kind: type[Method]  # the class of the method
    recovery: str | Recovery  # its name, or the recovery itself
    preset: str | None  # None: chosen by the model
    options: Mapping[str, Any]  # given for the method
    recovery_options: Mapping[str, Any]  # given for the recovery
    published: Recipe  # the recipe before options were assigned
    base: ResolvedRecipe | None = None  # that the method guards, or trains several times

    @property
    def epochs(self) -> int | None:
        """The number of offline epochs that the preset was published with, if any."""
        return self.presets.get(self.preset or "", {}).get("epochs")

    @property
    def presets(self) -> Mapping[str, Mapping[str, Any]]:
        """The published settings of the method and of the recipe, by name."""
        return {**self.kind.presets, **self.published.presets}

    def preset_for(self, model: Classifier) -> str | None:
        """Return the name of the preset that was asked for, or else of the one for such models, if there is one."""
        return self.preset or preset_for(self.kind, model)

    def seeded(self, seed: int) -> ResolvedRecipe:
        """Return the recipe with a seed for the method and the recovery, where they draw at random.

        >>> resolve("cotta").seeded(3).recovery_options
        {'seed': 3}
        """
        known = {} if isinstance(self.recovery, Recovery) else options_of(RECOVERIES[self.recovery])
        return replace(
            self,
            options={**self.options, **taken(options_of(self.kind), {"seed": seed})},
            recovery_options={**taken(known, {"seed": seed}), **self.recovery_options},
        )

    def build_recovery(self, model: Classifier | None = None) -> Recovery:
        """Return the recovery; the preset for a model may hold options of the recovery that it was published with."""
        if isinstance(self.recovery, Recovery):
            return self.recovery
        known = options_of(RECOVERIES[self.recovery])
        publisher = self.base or self
        preset = {} if model is None else publisher.presets.get(publisher.preset_for(model) or "", {})
        own = self.recovery == publisher.published.recovery
        published = {**preset, **publisher.published.recovery_options} if own else {}
        return RECOVERIES[self.recovery](**taken(known, published, self.recovery_options))


def resolve(
    method: str | type[Method],
    /,
    *,
    recovery: str | Recovery | None = None,
    recovery_options: Mapping[str, Any] | None = None,
    preset: str | None = None,
    **options: Any,
) -> ResolvedRecipe:
    """Look up the names of a recipe and assign its options, or raise a `RecipeError` for the first that is wrong.

    A method around another (`base`) takes every recipe, with options as they are given here, and keeps its recovery.

    Args:
        method: name of a method or recipe, or the class of a method.
        recovery: name of a recovery or the recovery itself; None keeps that of the recipe.
        recovery_options: of the recovery, by name.
        preset: name of a published setting; None: chosen by the network.
        **options: of the method or of the recovery, by name.

    >>> recipe = resolve("rdumb", lr=1e-4, every_batches=50)
    >>> recipe.kind.__name__, recipe.recovery, recipe.options, recipe.recovery_options
    ('Eta', 'periodic', {'lr': 0.0001}, {'every_batches': 50})
    """
    name = method if isinstance(method, str) else METHODS.name_of(method)
    published = recipe_of(name)
    if isinstance(method, str) and published.method not in METHODS:
        raise RecipeError("name", f"unknown method {name!r}; {nearest(name, recipe_names())} ({OWN})")
    kind = METHODS[published.method] if isinstance(method, str) else method
    base = _base_of(name, kind, options)
    if base is not None:
        options |= {"base": base.published.method, "base_options": _for_base(base)}
        if recovery is None and base.recovery != "never":
            recovery, recovery_options = base.recovery, {**base.recovery_options, **(recovery_options or {})}
    recovery = recovery or published.recovery
    if not isinstance(recovery, Recovery) and recovery not in RECOVERIES:
        raise RecipeError("recovery", f"unknown recovery {recovery!r}; {nearest(str(recovery), RECOVERIES)} ({OWN})")
    of_method, of_recovery = _assigned(name, kind, recovery, options, recovery_options)
    resolved = ResolvedRecipe(name, kind, recovery, preset, of_method, of_recovery, published, base)
    if preset is not None and preset not in resolved.presets:
        raise RecipeError("preset", f"{name!r} has no preset {preset!r}; {nearest(str(preset), resolved.presets)}")
    return resolved


def _base_of(name: str, kind: type[Method], options: Mapping[str, Any]) -> ResolvedRecipe | None:
    """Return the recipe that a method is put around, if it is such a method and does not adapt by itself."""
    if "base_options" not in options_of(kind):
        return None
    base, given = options.get("base", options_of(kind)["base"].default), options.get("base_options") or {}
    if not isinstance(base, str) or not isinstance(given, Mapping):
        return None  # `problems` says so
    if base == "auto":
        for option in given:
            raise RecipeError("base_options", f"'auto' adapts nothing and has no option {option!r}; name a method")
        return None
    try:
        resolved = resolve(base, **given)
    except RecipeError as error:
        raise RecipeError("base" if error.key == "name" else "base_options", str(error)) from error
    if resolved.kind is kind:
        raise RecipeError("base", f"base of method {name!r} must be another method, got {base!r}")
    if resolved.recovery != "never" and not kind.keeps_recovery:
        raise RecipeError(
            "base",
            f"{name!r} cannot keep the recovery {resolved.recovery!r} of {base!r}; leave it out with base_options="
            "{'recovery': 'never'}",
        )
    return resolved


def _for_base(base: ResolvedRecipe) -> dict[str, Any]:
    """Return the options of a method inside another; with a preset by name, those of the preset for the model go."""
    known = options_of(base.kind)
    named = {} if base.preset is None else {option: known[option].default for option in known if option != "seed"}
    return {**named, **taken(known, base.presets.get(base.preset or "", {}), base.published.options, base.options)}


def _assigned(
    name: str,
    kind: type[Method],
    recovery: str | Recovery,
    options: Mapping[str, Any],
    recovery_options: Mapping[str, Any] | None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options of the method and those of the recovery; the seed is for both."""
    known = options_of(kind)
    recovering = type(recovery) if isinstance(recovery, Recovery) else RECOVERIES[recovery]
    known_to_recovery = {} if isinstance(recovery, Recovery) else options_of(recovering)
    if recovery_options is not None and not isinstance(recovery_options, Mapping):
        raise RecipeError("recovery_options", f"recovery_options must be a mapping, got {recovery_options!r}")
    if isinstance(recovery, Recovery) and recovery_options:
        raise RecipeError("recovery_options", "recovery_options have no effect on a recovery that is already built")
    for option in {*options} & {*known_to_recovery} - {"seed"}:
        if option in known and recovery_options is None:
            raise RecipeError(
                option,
                f"both the method {name!r} and the recovery {recovery!r} have an option {option!r}; set the recovery's "
                f"with recovery_options={{{option!r}: …}}, or the method's alone by adding recovery_options={{}}",
            )
        if option not in known and recovery_options is not None:
            raise RecipeError(
                option, f"{option!r} is an option of the recovery {recovery!r}; put it in recovery_options"
            )
    of_method = {option: options[option] for option in options if option in known or option not in known_to_recovery}
    shared = taken(known_to_recovery, options if recovery_options is None else taken({"seed"}, options))
    of_recovery = {**shared, **(recovery_options or {})}
    owner = f"{'method' if name in METHODS or name not in RECIPES else 'recipe'} {name!r}"
    passed = {*parameters_of(kind)} - {*known}
    for option, problem in problems(kind, of_method, owner=owner, without=passed, besides=known_to_recovery):
        raise RecipeError(option, problem)
    owner = f"recovery {RECOVERIES.name_of(recovering)!r}"
    if isinstance(recovery, Recovery):
        check_built(recovery, owner=owner)
    for option, problem in () if isinstance(recovery, Recovery) else problems(recovering, of_recovery, owner=owner):
        raise RecipeError("recovery_options" if recovery_options else option, problem)
    return of_method, of_recovery


def taken(known: Collection[str], *layers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the known options of all layers; later layers win.

    Args:
        known: names of the options that are known.
        *layers: options by name.

    >>> taken({"lr"}, {"lr": 1, "momentum": 0}, {"lr": 2})
    {'lr': 2}
    """
    return {key: value for layer in layers for key, value in layer.items() if key in known}


def __getattr__(name: str) -> Any:
    if name in MOVED:
        warnings.warn(
            f"holdfast.recipes.{name} has moved: import it from holdfast.model.adapt", DeprecationWarning, stacklevel=2
        )
        return getattr(importlib.import_module("holdfast.model.adapt"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
