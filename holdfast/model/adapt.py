"""`adapt`: a classifier that adapts to its inputs, built from a recipe by name."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from holdfast.anchor import MOST_SAMPLES, Card, Reference, is_blind, measure_reference, read_card
from holdfast.estimators import ESTIMATORS, Estimator
from holdfast.machine.memory import keep_freed_memory
from holdfast.methods import Method
from holdfast.methods._proof import prove_source, trace
from holdfast.model.adapted import AdaptedModel, SourceBatch
from holdfast.models.base import load
from holdfast.models.classifier import Classifier, check_usable, classifier_of, weights_digest
from holdfast.models.engines import EngineName
from holdfast.models.input_checks import check_source
from holdfast.models.inputs import inputs_alone, inputs_and_labels
from holdfast.models.normalised import unwrapped
from holdfast.models.outputs import Output, are_probabilities
from holdfast.models.probing import NoInputsError
from holdfast.models.sharing import copies_of_empty, sharing_copy, unshare
from holdfast.options.problems import check_built
from holdfast.recipes import ResolvedRecipe, resolve, taken
from holdfast.records import SetupWarning
from holdfast.recovery import RECOVERIES, Recovery
from holdfast.registry import options_of

Adapted = TypeVar("Adapted", bound=AdaptedModel)

# One estimator, several, or a mapping of your own names to estimators.
Watching: TypeAlias = "str | Estimator | Sequence[str | Estimator] | Mapping[str, str | Estimator] | None"


def adapt(
    model: nn.Module | str,
    method: str | type[Method] = "blend",
    *,
    estimator: Watching = None,
    recovery: str | Recovery | None = None,
    recovery_options: Mapping[str, Any] | None = None,
    preset: str | None = None,
    source: Iterable[SourceBatch] | None = None,
    holdout: Iterable[SourceBatch] | None = None,
    card: Card | str | Path | None = None,
    clean_accuracy: float | None = None,
    example: Tensor | Mapping[str, Tensor] | None = None,
    head: str | None = None,
    output: Output = None,
    in_place: bool = False,
    source_engine: EngineName = "exact",
    **options: Any,
) -> AdaptedModel:
    """Return a classifier that adapts to its inputs; `model` itself is not changed unless `in_place` is set.

    Without `source`, `holdout` or `card` the default predicts as the network does, and warns. A network whose logits
    change when its layers are prepared for the method is refused, and the first layer that differs is named.

    In a process that adapts, glibc keeps freed memory instead of returning it to the system after each batch.

    Args:
        model: a network, or the name of one: `"timm:resnet50.a1_in1k"` (see `holdfast.models.load`).
        method: a method or recipe by name (`holdfast list methods`), or your own `Method` class.
        estimator: one estimator or several, by name or built, or a mapping of your own names to them, so that one kind
            can be used twice.
        recovery: a recovery by name or built. None is the one that the recipe was published with, which is "never" for
            most; "never" switches it off.
        recovery_options: options of the recovery; with them, all further keywords are the method's.
        preset: name of a published setting; by default it is chosen by the number of classes and the normalisation.
        source: unlabelled inputs like those that the network was trained on, a few hundred: the default follows the
            stream from their moments, and some methods need them.
        holdout: held-out source data, (inputs, labels) or inputs alone, for estimators that need them; of methods they
            reach only the moments.
        card: what `make_card` measured, or its file, instead of `source`.
        clean_accuracy: known accuracy of the network on source data, between 0 and 1, for estimators that use it
            (`anchored`) and for the guard.
        example: a batch of inputs, or a mapping with one for a network that takes it by name; only needed if probing
            the network does not find its inputs.
        head: name of the last layer; only needed if probing does not find it.
        output: where the logits are if the network returns a tuple, a mapping or a single logit: an index, a key,
            "binary", or a function.
        in_place: whether to adapt `model` itself instead of a copy.
        source_engine: how `blend` and the guard run the source that they predict with: "exact" is bit-equal to the
            network; "folded", "bfloat16" and "compiled" are faster, and change what `docs/devices.md` says.
        **options: options of the method, or of the recovery where only the recovery has them (`holdfast.describe`).

    >>> from holdfast.models.tiny import tiny_resnet
    >>> model = adapt(tiny_resnet(), "tent", lr=1e-4)
    >>> model(torch.rand(4, 3, 32, 32)).shape
    torch.Size([4, 10])
    """
    check_order("adapt", model, method)
    recipe = resolve(method, recovery=recovery, recovery_options=recovery_options, preset=preset, **options)
    return adapt_with(
        recipe,
        load(model) if isinstance(model, str) else model,
        estimator=estimator,
        source=source,
        holdout=holdout,
        card=card,
        clean_accuracy=clean_accuracy,
        example=example,
        head=head,
        output=output,
        in_place=in_place,
        source_engine=source_engine,
    )


def check_order(call: str, model: object, method: object) -> None:
    """Raise if the arguments of `adapt` or `guard` are swapped, or if there is no network among them.

    >>> check_order("adapt", "tent", nn.Linear(2, 2))
    Traceback (most recent call last):
    TypeError: the arguments are swapped, the network comes first: adapt(network, 'tent')
    """
    if isinstance(method, nn.Module) and not isinstance(model, nn.Module):
        raise TypeError(f"the arguments are swapped, the network comes first: {call}(network, {model!r})")
    if isinstance(method, nn.Module):
        raise TypeError(f"the method is a name such as 'tent', got a {type(method).__name__}")
    if not isinstance(model, nn.Module | str):
        raise TypeError(f"the network is a torch module, or the name of one, got {type(model).__name__} {model!r}")


def adapt_with(
    recipe: ResolvedRecipe,
    model: nn.Module,
    *,
    estimator: Watching = None,
    source: Iterable[SourceBatch] | None = None,
    holdout: Iterable[SourceBatch] | None = None,
    card: Card | str | Path | None = None,
    clean_accuracy: float | None = None,
    example: Tensor | Mapping[str, Tensor] | None = None,
    head: str | None = None,
    output: Output = None,
    in_place: bool = False,
    source_engine: EngineName = "exact",
    build: type[Adapted] = AdaptedModel,  # type: ignore[assignment]
    from_stream: bool = False,
) -> Adapted:
    """Do what `adapt` does, with a recipe that is already resolved; `build` is the kind of model to return.

    `from_stream` says that `source` are inputs of the stream, as some papers fit their methods: their moments are not
    those of the source's own data.
    """
    keep_freed_memory()
    kind = recipe.kind
    known = {} if clean_accuracy is None else {"clean_accuracy": clean_accuracy}
    for_method = taken(options_of(kind), known)
    recipe = replace(recipe, options={**recipe.options, **for_method})
    if kind.requires_source(recipe.options) and source is None:
        raise ValueError(
            f"{recipe.name!r} needs unlabelled source inputs before the first batch: pass source=[inputs, …] (a few "
            "hundred samples are enough), or choose a method that needs none, such as 'eta'"
        )
    with torch.inference_mode(False):
        enough = None if kind.requires_source(recipe.options) or estimator is not None else MOST_SAMPLES
        source = None if source is None else _kept("source", source, enough)
        holdout = None if holdout is None else _kept("holdout", holdout)
        network = unwrapped(model)  # layers of a compiled module cannot be replaced
        network = network if in_place else _copied(network)
        classifier = _probed(network, example, _first(source, holdout), head, output)
        for batch in (*(source or ()), *(holdout or ())):
            check_source(inputs_alone(batch), classifier.input_spec, classifier.input_dtype)
        weights = weights_digest(model)
        source_network = sharing_copy(classifier)
        before = trace(classifier)
        if are_probabilities(before.logits):
            warnings.warn(
                "the network returns probabilities, and methods need logits; take its softmax out, or pass "
                "output=lambda probabilities: probabilities.log()",
                SetupWarning,
                stacklevel=3,
            )
        preset = recipe.preset_for(classifier)
        published = recipe.presets[preset] if preset else {}
        recovery = recipe.build_recovery(classifier)
        estimators = _build_estimators(estimator, recovery, recipe.options, known)
        if (
            known
            and not for_method
            and not any(hasattr(watching, "clean_accuracy") for watching in estimators.values())
        ):
            raise ValueError("nothing uses clean_accuracy; pass estimator='anchored', or use holdfast.guard")
        own = None if from_stream else source
        shown, holdout = holdout, list(_holdout_for(estimators, holdout, own))
        for watching in estimators.values():
            watching.prepare(classifier)  # before the method changes its layers
        adapted = build(
            kind(classifier, **taken(options_of(kind), published, recipe.published.options, recipe.options)),
            estimators=estimators,
            recovery=recovery,
            name=recipe.name,
            preset=preset,
            weights=weights,
            source=source_network,
        )
        unshare(source_network, adapted.method.moving().values())
        prove_source(adapted.method, before)
        if source_engine != "exact":
            adapted.method.run_source_by(source_engine)
        if source is not None:
            adapted.fit_source(source)
        reference = _reference_for(adapted, card, source_network, own or shown or ())
        _fit_holdout(adapted, holdout, reference, known=clean_accuracy is not None)
    if not adapted.method.referred:
        warnings.warn(_unreferred(recipe.name, model, reference), SetupWarning, stacklevel=3)
    elif reference is not None and is_blind(source_network, reference):
        warnings.warn(
            f"InstanceNorm, the only normalisation of {type(unwrapped(model)).__name__}, gives every input the same "
            f"moments: {recipe.name!r} sees no shift and predicts nearly as the network does",
            SetupWarning,
            stacklevel=3,
        )
    return adapted


def _unreferred(name: str, model: nn.Module, reference: Reference | None) -> str:
    """Return why a method cannot follow its inputs."""
    if reference is None:
        return (
            f"{name!r} has no source samples, so it predicts as the network does: pass source=[inputs, …], a few "
            "hundred unlabelled inputs like those that the network was trained on, or card="
        )
    return (
        f"{name!r} finds no layer of {type(unwrapped(model)).__name__} to follow inputs at, so it predicts as the "
        "network does: it needs a normalisation layer, or without any a convolution or a linear layer before the head, "
        "that a pass calls once and whose values are finite"
    )


def _kept(name: str, given: Iterable[SourceBatch], enough: int | None = None) -> list[SourceBatch]:
    """Return batches of source or held-out data; of a long loader only the first, until there are enough samples."""
    kept: list[SourceBatch] = []
    samples = 0
    if isinstance(given, str | Mapping) or (not hasattr(given, "__getitem__") and not hasattr(given, "__iter__")):
        raise TypeError(f"{name} is a list of batches, or a loader of them, got {type(given).__name__}")
    for batch in given:
        inputs = inputs_alone(batch)
        if not isinstance(inputs, Tensor):
            raise TypeError(f"{name} holds {type(inputs).__name__} instead of tensors; pass {name}=[inputs, …]")
        kept.append(batch)
        samples += inputs.shape[:1].numel()
        if enough is not None and samples >= enough:
            break
    return kept


def _fit_holdout(
    adapted: AdaptedModel, holdout: Sequence[SourceBatch], reference: Reference | None, *, known: bool
) -> None:
    """Show held-out data and the reference.

    Without labels or a known accuracy, the temperature of estimates is fitted by the agreement of the source with an
    anchor that follows from stored statistics; one that follows from these very inputs would agree in any case.
    """
    measured = known or any(inputs_and_labels(batch)[1] is not None for batch in holdout)
    if reference is not None and measured:
        adapted.refer_to(reference)
    adapted.fit_holdout(holdout)
    if reference is not None and not measured:
        adapted.refer_to(reference)


def _reference_for(
    adapted: AdaptedModel, card: Card | str | Path | None, network: Classifier, shown: Sequence[SourceBatch]
) -> Reference | None:
    """Return the moments of the source's own data: those of a card, or of the samples that were given."""
    if card is not None:
        card = card if isinstance(card, Card) else read_card(card)
        card.check(adapted.weights)
        return card.reference
    used = any(part.uses_reference for part in (adapted.method, *adapted.estimators.values()))
    return measure_reference(network, map(inputs_alone, shown)) if used and shown else None


def _copied(network: nn.Module) -> nn.Module:
    check_usable(network)
    try:
        return copy.deepcopy(network, copies_of_empty(network))
    except (RuntimeError, TypeError) as error:
        why = str(error).partition(". ")[0]
        raise ValueError(
            f"{type(network).__name__} cannot be copied ({why}); use torch.nn.utils.parametrizations instead of "
            "torch.nn.utils.weight_norm, and keep no locks, files or other tensors with a graph in its attributes"
        ) from error


def _first(*given: Sequence[SourceBatch] | None) -> Tensor | None:
    """Return the first batch of source or held-out data."""
    return next((inputs_alone(batches[0]) for batches in given if batches), None)


def _probed(
    network: nn.Module,
    example: Tensor | Mapping[str, Tensor] | None,
    shown: Tensor | None,
    head: str | None,
    output: Output,
) -> Classifier:
    """Return the network as a classifier; without an example, of batches like one that is shown if need be.

    The meaning of integers cannot be guessed, nor can every size.
    """
    if example is not None or shown is None:
        return Classifier(network, example=example, head=head, output=output)
    if not shown.is_floating_point():
        return classifier_of(network, shown, head, output)
    try:
        return Classifier(network, head=head, output=output)
    except NoInputsError:
        return Classifier(network, example=shown, head=head, output=output)


def _build_estimators(
    given: Watching, recovery: Recovery, options: Mapping[str, Any], known: Mapping[str, Any]
) -> dict[str, Estimator]:
    """Return the estimators by name: those that were asked for, and those whose estimates the recovery reads.

    What is `known` of the source goes to those that are given by name and take it.
    """
    several = [] if given is None else [given] if isinstance(given, (str, Estimator)) else given
    if not isinstance(several, Mapping):
        several = {entry if isinstance(entry, str) else ESTIMATORS.name_of(type(entry)): entry for entry in several}
    wanted = {**{name: name for name in recovery.reads if name not in several}, **several}
    seed = taken({"seed"}, options)  # of the method, for estimators that are given by name and draw at random
    built = {
        name: estimator_named(entry, **seed, **taken(options_of(ESTIMATORS[entry]), known))
        if isinstance(entry, str)
        else entry
        for name, entry in wanted.items()
    }
    for watching in built.values():
        check_built(watching, owner=f"estimator {ESTIMATORS.name_of(type(watching))!r}")
    for name in recovery.reads if recovery.reads_gain else ():
        if not built[name].compares:
            raise ValueError(
                f"{RECOVERIES.name_of(type(recovery))} reads a gain, but the estimator {name!r} gives none; "
                "read 'anchored' with compare_every of at least 1"
            )
    return built


def estimator_named(name: str, *, seed: int = 0, **options: Any) -> Estimator:
    """Return an estimator; the seed is passed only to one that draws at random.

    >>> vars(estimator_named("aetta", seed=3))["seed"], estimator_named("gde", seed=3)
    (3, Gde())
    """
    kind = ESTIMATORS[name]
    return kind(**taken(options_of(kind), {"seed": seed}), **options)


def _holdout_for(
    estimators: Mapping[str, Estimator],
    holdout: Iterable[SourceBatch] | None,
    source: Sequence[SourceBatch] | None,
) -> Iterable[SourceBatch]:
    """Return the held-out data, or the source inputs for estimators that need no labels."""
    if holdout is not None:
        return holdout
    for name, estimator in estimators.items():
        if estimator.needs == "labels" or (estimator.needs == "inputs" and source is None):
            entry = "(inputs, labels)" if estimator.needs == "labels" else "inputs"
            raise ValueError(
                f"the estimator {name!r} needs held-out source data before the first batch: pass holdout=[{entry}, …] "
                "(a few hundred samples are enough), or choose one that needs none, such as 'aetta' with its published "
                "rate"
            )
    return [inputs_alone(batch) for batch in source or ()]
