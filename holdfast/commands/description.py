"""What is known of a method or recipe: printed by `holdfast.describe`, and the source of the method pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from holdfast.methods import METHODS, Method
from holdfast.options.problems import annotation_of, in_words
from holdfast.recipes import RECIPES, recipe_names, recipe_of, resolve
from holdfast.recovery import RECOVERIES
from holdfast.registry import describe as entry_of
from holdfast.registry import meanings_of, options_of

LEARNING = ("optimizer", "lr", "momentum", "nesterov", "betas", "weight_decay")  # of every method that trains


@dataclass(frozen=True)
class Option:
    """An option with its default, its meaning, and the values that it takes in words."""

    name: str
    default: Any
    meaning: str
    allowed: str = ""


@dataclass(frozen=True, repr=False)
class Description:
    """A method or recipe: what it does, costs and needs, when to use it, and its options."""

    name: str  # of the method or recipe
    method: str  # name of the method that adapts
    recovery: str  # name of its recovery; "never" for none
    summary: str  # what it does, in one sentence
    citation: str  # its paper
    predicts: str  # before or after the update on the same batch
    passes: str  # forward and backward passes of a step
    keeps: str  # what it remembers between batches
    needs: str  # of the network and of source data
    use_when: str  # the streams for which it is a good choice
    fails_when: str  # the streams on which it loses
    options: tuple[Option, ...]  # of the method, with defaults and meanings
    recovery_options: tuple[Option, ...]  # of the recovery, with defaults and meanings
    presets: Mapping[str, Mapping[str, Any]]  # published settings by name

    def __repr__(self) -> str:
        """Return one line for each fact and option: what a notebook shows."""
        recovery = f" with the recovery {self.recovery}" if self.recovery != "never" else ""
        facts = {
            "paper": self.citation,
            "method": self.method + recovery,
            "passes": self.passes,
            "needs": self.needs,
            "use it when": self.use_when,
            "it fails when": self.fails_when,
            "presets": ", ".join(self.presets),
        }
        options = [*self.options, *self.recovery_options]
        width = max((len(f"{option.name}={option.default!r}") for option in options), default=0)
        return "\n".join(
            [
                f"{self.name}: {self.summary}",
                *(f"  {key}: {value}" for key, value in facts.items() if value),
                *(["  options:"] if options else []),
                *(f"    {f'{option.name}={option.default!r}':<{width}}  {option.meaning}" for option in options),
            ]
        )


def list_methods() -> list[str]:
    """Return the name of every method and recipe that `adapt` takes.

    >>> {"tent", "rdumb", "blend"} <= set(list_methods())
    True
    """
    return sorted(recipe_names())


def describe(name: str) -> Description:
    """Return what is known of a method or recipe: cost, requirements, when to use it, options and presets.

    >>> print(describe("neo"))
    neo: Subtract the mean of all test features seen so far before the last layer.
      paper: Murphy et al., ICLR 2026
      method: neo
      passes: 1 forward
      needs: a last linear layer
      use it when: there is no budget beyond inference, especially for vision transformers
      it fails when: classes are correlated in time or source features are not centred: the mean is then not the shift
      options:
        centre_momentum=None  share of a new batch in the mean; None: that of all samples so far
    """
    resolved, recipe = resolve(name), recipe_of(name)
    kind = resolved.kind
    entry = entry_of(name, recipe if name in RECIPES else kind)
    own = sorted(options_with_meanings(kind), key=lambda option: option.name in LEARNING)  # those of the optimiser last
    defaults = {**recipe.options}
    return Description(
        name=name,
        method=recipe.method,
        recovery=recipe.recovery,
        summary=entry.summary,
        citation=entry.citation,
        predicts=kind.predicts,
        passes=kind.passes,
        keeps=kind.keeps,
        needs=_needs(kind),
        use_when=recipe.use_when or kind.use_when,
        fails_when=recipe.fails_when or kind.fails_when,
        options=tuple(replace(option, default=defaults.get(option.name, option.default)) for option in own),
        recovery_options=tuple(
            replace(option, default=recipe.recovery_options.get(option.name, option.default))
            for option in options_with_meanings(RECOVERIES[recipe.recovery])
        ),
        presets=resolved.presets,
    )


def options_with_meanings(kind: type) -> list[Option]:
    """Return the options of a method or recovery, except for the seed."""
    meanings = meanings_of(kind)
    options = {name: option.default for name, option in options_of(kind).items() if name != "seed"}
    return [
        Option(name, default, meanings.get(name, ""), in_words(annotation_of(kind, name)))
        for name, default in options.items()
    ]


def _needs(kind: type[Method]) -> str:
    if "base_options" in options_of(kind):  # it wraps another method
        base = options_of(kind)["base"].default
        own = "; unlabelled source inputs" * kind.needs_source
        needs = "any network" if base not in METHODS else _needs(METHODS[base])
        return f"what the method in `base` needs; {base}: {needs}{own}"
    layers = "BatchNorm layers" if kind.needs_batch_norm else "normalisation layers" if kind.needs_norm else ""
    head, source = "a last linear layer" * kind.needs_head, "unlabelled source inputs" * kind.needs_source
    return ", ".join(filter(None, (layers, head, source))) or "any network"
