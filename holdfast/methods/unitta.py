"""UniTTA"""
from __future__ import annotations
from typing import Any, ClassVar
from torch import Tensor, nn
import torch
from holdfast.methods.base import METHODS, Method, Answering
from holdfast.methods.by_domain import ByDomain
from holdfast.blocks.neighbours import NeighbourAverage, Filter, surer
from holdfast.models.classifier import Classifier

@METHODS.register("unitta")
class Unitta(ByDomain):
    """x"""
    citation = "Du et al., 2024"
    def __init__(self, model: Classifier, **options: Any) -> None:
        super().__init__(model, **options)
        self.neighbours = nn.ModuleList(NeighbourAverage() for _ in range(3))
    def answer(self, inputs: Tensor, turn: int) -> Tensor:
        logits, features = self.model.forward_with_features(inputs)
        learn = not self.frozen and bool(torch.isfinite(logits).all())
        averaged = self.model.classify(self.neighbours[turn](features, learn=learn))
        return surer(logits.log_softmax(1), averaged.log_softmax(1))
    def choose(self, together: Tensor, apart: Tensor) -> Tensor:
        if self.filter == "official":
            together = together.exp().log_softmax(1)
        return super().choose(together, apart)
