"""LAME: answer a batch jointly, near samples alike; nothing is ever trained."""

from __future__ import annotations

import copy
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.methods._base import METHODS, Method
from holdfast.models.classifier import Classifier

__all__ = ["Lame"]

Affinity = Literal["knn", "rbf", "linear"]
MAX_STEPS = 100
SMALLEST_CHANGE = 1e-8  # of the energy, relative


@METHODS.register("lame")
class Lame(Method):
    """Corrects the answers of the frozen source model so that samples with near features answer alike.

    There is no update for an answer to come before or after, but the samples of a batch are answered jointly: an answer
    depends on the batch around it, and a batch of one is answered by the source model alone. The official affinity is
    `rbf`; UniTTA, NOTE and SoTTA compare with `knn`.
    """

    citation = "Boudiaf et al., CVPR 2022"
    passes = "1 forward"
    keeps = "nothing"
    use_when = "neighbours in a stream are of one class, and the weights must not change"
    fails_when = "classes come mixed: it is then worse than the source model"
    learns = False
    presets: ClassVar = {"unitta": {"affinity": "knn", "neighbours": 5}}

    def __init__(self, model: Classifier, *, affinity: Affinity = "rbf", neighbours: int = 5, seed: int = 0) -> None:
        if affinity not in ("knn", "rbf", "linear"):
            raise ValueError(f"affinity={affinity!r} is not known; choose 'knn', 'rbf' or 'linear'")
        if neighbours < 1:
            raise ValueError(f"neighbours={neighbours} leaves a sample alone; pass a whole number of at least 1")
        self.affinity, self.neighbours = affinity, neighbours  # k
        super().__init__(model, seed=seed)

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Leave every layer as it is and train nothing."""
        if model.head is None:
            raise ValueError(
                "LAME compares samples by what the last layer receives, and none was found; pass head='...' with its "
                "name, or choose 'source'"
            )
        return []

    def predict(self, inputs: Tensor) -> Tensor:
        """Return the logarithms of the corrected probabilities."""
        return answer_jointly(*self.model.forward_with_features(inputs), self.affinity, self.neighbours)

    def export(self) -> nn.Module:
        """Return a module that answers a batch jointly."""
        return JointClassifier(copy.deepcopy(self.model), self.affinity, self.neighbours).eval()


class JointClassifier(nn.Module):
    """A frozen network whose answers to a batch are corrected by one another."""

    def __init__(self, model: Classifier, affinity: Affinity, neighbours: int) -> None:
        super().__init__()
        self.model, self.affinity, self.neighbours = model, affinity, neighbours

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the logarithms of the corrected probabilities."""
        return answer_jointly(*self.model.forward_with_features(inputs), self.affinity, self.neighbours)


def answer_jointly(logits: Tensor, features: Tensor, affinity: Affinity, neighbours: int) -> Tensor:
    """Return log Y where Y = softmax(log p + W Y): every sample listens to those near it."""
    dtype = torch.promote_types(logits.dtype, torch.float32)  # half precision knows no 1e-10
    log_priors = (logits.to(dtype).softmax(1) + 1e-10).log()
    if len(logits) == 1:
        return log_priors.log_softmax(1).to(logits.dtype)
    weights = affinities(features.to(dtype), affinity, neighbours)
    answers, previous = log_priors.softmax(1), 0.0
    for step in range(MAX_STEPS):
        scores = log_priors + weights @ answers
        # Σ Y (log Y - log p - W Y), the energy of the paper at the new answers, is all that the softmax divides by.
        log_totals = scores.logsumexp(1, keepdim=True)
        answers, energy = (scores - log_totals).exp(), -float(log_totals.sum())
        if step > 1 and abs(energy - previous) <= SMALLEST_CHANGE * abs(previous):
            break
        previous = energy
    return (scores - log_totals).to(logits.dtype)


def affinities(features: Tensor, affinity: Affinity, neighbours: int) -> Tensor:
    """Return how much each sample listens to each other, (batch, batch)."""
    features = F.normalize(features, dim=1)
    if affinity == "linear":
        return (features @ features.T).fill_diagonal_(1.0)
    # Distances do not change when the mean is taken off, and those of near samples then keep their digits.
    features = features - features.mean(0)
    products = features @ features.T
    lengths = products.diagonal()
    squares = (lengths[:, None] + lengths - 2 * products).clamp_min_(0.0).fill_diagonal_(0.0)  # d²
    if affinity == "knn":
        nearest = squares.fill_diagonal_(torch.inf).topk(min(neighbours, len(features) - 1), largest=False).indices
        return torch.zeros_like(squares).scatter_(1, nearest, 1.0)
    # The k-th smallest distance counts the sample itself; equal samples are a width of zero apart, and 0 / 0 is NaN.
    widths = squares.kthvalue(min(neighbours, len(features)), dim=1).values.sqrt()
    variance = widths.mean().square().clamp_min(torch.finfo(squares.dtype).eps)
    return (squares / (-2 * variance)).exp()
