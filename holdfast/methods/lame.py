"""LAME: joint predictions for a batch, similar for similar samples; no training."""

from __future__ import annotations

import copy
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.methods._base import METHODS, Method
from holdfast.models.classifier import Classifier
from holdfast.options.ranges import Count

Affinity = Literal["knn", "rbf", "linear"]
MAX_STEPS = 100
STEPS_AHEAD = 25  # taken on another device before the host looks at their energies
SMALLEST_CHANGE = 1e-8  # of the energy, relative


@METHODS.register("lame")
class Lame(Method):
    """Correct the source's predictions so that samples with similar features get similar predictions.

    The network never changes. The samples of a batch are predicted jointly: a prediction depends on the rest of the
    batch, and for a batch of one it is the source's. The official affinity is `rbf`; UniTTA, NOTE and SoTTA compare
    with `knn`.
    """

    citation = "Boudiaf et al., CVPR 2022"
    needs_head = True
    needs_norm = False
    predicts_jointly = True
    passes = "1 forward"
    keeps = "nothing"
    use_when = "neighbouring samples share a class, and the weights must not change"
    fails_when = "classes are independent in time: it is then worse than the source"
    meanings: ClassVar = {
        "affinity": "between samples: rbf, knn or linear",
        "neighbours": "number of nearest samples that define the affinity (k)",
    }
    learns = False
    presets: ClassVar = {"unitta": {"affinity": "knn", "neighbours": 5}}

    def __init__(self, model: Classifier, *, affinity: Affinity = "rbf", neighbours: Count = 5, seed: int = 0) -> None:
        self.affinity, self.neighbours = affinity, neighbours  # k
        super().__init__(model, seed=seed)

    def prepare(self, model: Classifier) -> list[nn.Parameter]:
        """Train nothing."""
        return []

    def predict(self, inputs: Tensor) -> Tensor:
        """Return the logarithms of the corrected probabilities."""
        return predict_jointly(*self.model.forward_with_features(inputs), self.affinity, self.neighbours)

    def export(self) -> nn.Module:
        """Return a module that predicts a batch jointly."""
        return JointClassifier(copy.deepcopy(self.model), self.affinity, self.neighbours).eval()


class JointClassifier(nn.Module):
    """A network whose predictions for the samples of a batch are corrected jointly."""

    def __init__(self, model: Classifier, affinity: Affinity, neighbours: Count) -> None:
        super().__init__()
        self.model, self.affinity, self.neighbours = model, affinity, neighbours

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the logarithms of the corrected probabilities."""
        return predict_jointly(*self.model.forward_with_features(inputs), self.affinity, self.neighbours)


def predict_jointly(logits: Tensor, features: Tensor, affinity: Affinity, neighbours: int) -> Tensor:
    """Return log Y, where Y = softmax(log p + W Y) and W are the affinities between samples."""
    dtype = torch.promote_types(logits.dtype, torch.float32)  # 1e-10 underflows in half precision
    log_priors = (logits.to(dtype).softmax(1) + 1e-10).log()
    if len(logits) == 1:
        return log_priors.log_softmax(1).to(logits.dtype)
    weights = affinities(features.to(dtype), affinity, neighbours)
    return fixed_point(log_priors, weights).to(logits.dtype)


def fixed_point(log_priors: Tensor, weights: Tensor) -> Tensor:
    """Return log Y after as many steps as the energy changes; on a GPU the host looks at it every 25 steps only."""
    ahead = 1 if log_priors.device.type == "cpu" else STEPS_AHEAD
    probs, energies = log_priors.softmax(1), list[float]()
    while len(energies) < MAX_STEPS:
        steps, totals = [], []
        for _ in range(ahead):
            scores = log_priors + weights @ probs
            # The paper's energy Σ Y (log Y - log p - W Y) at the new Y is minus the sum of the softmax's normalisers.
            log_totals = scores.logsumexp(1, keepdim=True)
            steps.append(scores - log_totals)
            probs = steps[-1].exp()
            totals.append(log_totals.sum())
        energies += torch.stack(totals).neg().tolist()
        for index, log_probs in enumerate(steps, len(energies) - ahead):
            if index > 1 and abs(energies[index] - energies[index - 1]) <= SMALLEST_CHANGE * abs(energies[index - 1]):
                return log_probs
    return steps[-1]


def affinities(features: Tensor, affinity: Affinity, neighbours: int) -> Tensor:
    """Return the affinities between all pairs of samples, (batch, batch)."""
    features = F.normalize(features, dim=1)
    if affinity == "linear":
        return (features @ features.T).fill_diagonal_(1.0)
    # Subtracting the mean leaves distances unchanged and reduces cancellation between near samples.
    features = features - features.mean(0)
    products = features @ features.T
    lengths = products.diagonal()
    squares = (lengths[:, None] + lengths - 2 * products).clamp_min_(0.0).fill_diagonal_(0.0)  # d²
    if affinity == "knn":
        nearest = squares.fill_diagonal_(torch.inf).topk(min(neighbours, len(features) - 1), largest=False).indices
        return torch.zeros_like(squares).scatter_(1, nearest, 1.0)
    # The k-th smallest distance counts the sample itself. Equal samples have a width of zero: clamp, as 0 / 0 is NaN.
    widths = squares.kthvalue(min(neighbours, len(features)), dim=1).values.sqrt()
    variance = widths.mean().square().clamp_min(torch.finfo(squares.dtype).eps)
    return (squares / (-2 * variance)).exp()
