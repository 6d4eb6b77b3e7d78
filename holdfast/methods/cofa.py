"""COFA"""
from __future__ import annotations
from typing import ClassVar
from torch import Tensor, nn
import torch
from holdfast.methods.base import METHODS, Method, Answering
from holdfast.blocks.neighbours import NeighbourAverage, Filter, surer
from holdfast.models.classifier import Classifier

@METHODS.register("cofa")
class Cofa(Method):
    """x"""
    citation = "Du et al., 2024 (UniTTA)"
    def __init__(self, model: Classifier, *, filter: Filter = "official", seed: int = 0) -> None:
        self.filter = filter
        super().__init__(model, seed=seed)
        self.neighbours = NeighbourAverage()
    def prepare(self, model):
        return []
    def predict(self, inputs: Tensor) -> Tensor:
        logits, features = self.model.forward_with_features(inputs)
        learn = not self.frozen and bool(torch.isfinite(logits).all())
        averaged = self.model.classify(self.neighbours(features, learn=learn)).log_softmax(1)
        return averaged if self.filter == "off" else surer(logits.log_softmax(1), averaged)
    def export(self) -> nn.Module:
        return Answering(self)
