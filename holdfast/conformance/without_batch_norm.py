"""Cases of networks without BatchNorm: a transformer and a ResNet with group normalisation, on corrupted digits.

T3A's trace with M = −1 has no case: it keeps the official defect, which drops a support of every class at every batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from holdfast.conformance.case import Case, expect
from holdfast.conformance.entropy import SAR
from holdfast.conformance.long_streams import loss_average, online_map, recorded_patches
from holdfast.conformance.pack import DIGITS_RESNET_GN, DIGITS_VIT
from holdfast.methods import Method
from holdfast.methods.deyo import Deyo
from holdfast.methods.neo import Neo
from holdfast.methods.pea import Pea
from holdfast.methods.t3a import T3a


def centre(method: Method) -> Tensor:
    """Return NEO's mean of the features."""
    assert isinstance(method, Neo)
    return method.centre


def trained(method: Method) -> Tensor:
    """Return the parameters that are trained; the official traces leave out the frozen ones."""
    return torch.cat([weight.flatten() for weight in method.trained])


def statistics(method: Method, kind: str, block: str) -> Tensor:
    """Return one of PEA's statistics of a block."""
    return expect(Tensor, getattr(expect(Pea, method), kind)[block])


PROTOTYPES = {"prototypes": lambda method: expect(T3a, method).prototypes()}


def block_states(names: Mapping[str, str]) -> dict[str, Callable[[Method], Tensor]]:
    """Return what reads the recorded statistics of each block, given its name in the trace and in the network."""
    kinds = {"source_mean": "source_means", "source_var": "source_vars", "mean": "means", "cov": "covariances"}
    return {
        f"{array}_{recorded}": partial(statistics, kind=kind, block=block)
        for recorded, block in names.items()
        for array, kind in kinds.items()
    }


VIT_BLOCKS = block_states({f"block{stage}": f"blocks.{stage}" for stage in range(4)})
GN_BLOCKS = block_states({f"layer{stage + 1}_0": f"stages.{stage}.0" for stage in range(3)})
PEA: dict[str, Any] = {
    "source": True,
    "decisions": {"reset": lambda model: not expect(Pea, model.method).means},
    "totals": {"drift_spikes": lambda model: int(expect(Pea, model.method).spikes)},
}
VIEWS = ("centre_crop", "flip")
SGD = {"optimizer": "sgd", "momentum": 0.9}
DEYO: dict[str, Any] = {
    "recorded": recorded_patches,
    "inputs_of": ("perm",),
    "states": {"affine": trained},
    "totals": {
        "n_reliable": lambda model: expect(Deyo, model.method).certain_samples,
        "n_used": lambda model: expect(Deyo, model.method).learnt_samples,
    },
}
_vit = partial(Case, pack=DIGITS_VIT)
_gn = partial(Case, pack=DIGITS_RESNET_GN)
_neo, _t3a = partial(_vit, recipe="neo", states={"centre": centre}), partial(_vit, recipe="t3a")
_sar: dict[str, Any] = {"recipe": "sar", "states": {"affine": trained}}
VIT_SAR, GN_SAR = {**SAR, "lr": 1e-3}, {**SAR, "lr": 2.5e-4}
# The published recovery resets after every batch with ten classes: the method is tested without it.
VIT_SAR_ALONE, GN_SAR_ALONE = (
    {key: value for key, value in {**options, "recovery": "never"}.items() if key != "keep_average"}
    for options in (VIT_SAR, GN_SAR)
)

CASES = (
    _vit("source_vit", "source"),
    _gn("source_gn", "source"),
    _neo("neo"),
    _neo("neo_cont", options={"centre_momentum": 0.1}),
    _gn("neo_gn", "neo", states={"centre": centre}),
    _t3a("t3a_m100", options={"supports_per_class": 100}, states=PROTOTYPES),
    _t3a("t3a_m20", options={"supports_per_class": 20}, states=PROTOTYPES),
    _t3a("t3a_all", options={"supports_per_class": None}, states=PROTOTYPES),
    _vit("pea", "pea", states=VIT_BLOCKS, **PEA),
    _vit("pea_aug", "pea", {"views": VIEWS}, states=VIT_BLOCKS, **PEA),
    _vit("pea_g16", "pea", {"statistics_momentum": 0.1, "group_size": 16}, states=VIT_BLOCKS, **PEA),
    _gn("pea_gn", "pea", {"spike_ratio": 2.5, "group_size": 32}, states=GN_BLOCKS, **PEA),
    _vit("sar_vit", options=VIT_SAR, decisions={"ema": loss_average}, **_sar),
    _vit("sar_vit_noreset", options=VIT_SAR_ALONE, **_sar),
    _vit("sar_vit_noreset_lr1e-2", options={**VIT_SAR_ALONE, "lr": 1e-2}, **_sar),
    _gn("sar_gn", options=GN_SAR, decisions={"ema": loss_average}, **_sar),
    _gn("sar_gn_noreset", options=GN_SAR_ALONE, **_sar),
    _vit("deyo_vit_det", "deyo", {**SGD, "lr": 1e-3}, **DEYO),
    _vit("deyo_vit_lr1e-2_det", "deyo", {**SGD, "lr": 1e-2}, twin=True, **DEYO),
    _gn("deyo_gn_det", "deyo", {**SGD, "lr": 2.5e-4}, **DEYO),
    _vit("zerosiam_vit", "zerosiam", {**SGD, "lr": 5e-3, "predictor_lr": 5e-3}, states={"predictor": online_map}),
)
