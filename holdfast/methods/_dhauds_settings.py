"""Settings of the hundred published DHAuDS runs with AMAuT and HuBERT (Shao et al., arXiv 2511.18421).

They are taken from the official scripts, one per criterion, and were tuned with the labels of the test set. The paper
gives other momenta for 22 of the AMAuT runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

COLUMNS = (
    "lr",
    "feature_lr_share",
    "momentum",
    "nuclear_weight",
    "entropy_weight",
    "generalised_weight",
    "exponent",
    "consistency_weight",
    "decay_epochs",
    "decay_strength",
    "steady_epochs",
)

# Network and data set, criteria, epochs, batch size, and the columns above.
TABLE = """
amaut-us8 WHN-L1,WHN-L2,TST-L1,TST-L2,PSH-L1,PSH-L2 15 70 0.0001 0.55 0.7 1 1 1 1.1 0.1 40 10 1
amaut-us8 ENSC-L1,ENSC-L2 30 70 0.0001 0.55 0.7 1 1 1 1.1 0.1 40 10 1
amaut-vs WHN-L1 45 70 0.0001 0.55 0.9 1 0 0.25 1.1 0.1 50 30 35
amaut-vs WHN-L2 45 70 0.0001 0.55 0.9 1 0.25 0 0.9 0.1 50 30 35
amaut-vs ENQ-L1 45 70 0.0001 0.55 0.9 1 0 0.5 1.1 0.5 50 30 35
amaut-vs ENQ-L2 45 70 0.0001 0.55 0.9 1 1 0.1 1.1 0.5 50 30 35
amaut-vs END1-L1 45 70 0.0001 0.55 0.9 1 1 0 1.1 1 50 30 35
amaut-vs END1-L2 45 70 0.0001 0.55 0.9 1 0 1 1.1 0.5 50 30 35
amaut-vs END2-L1 45 70 0.0001 0.55 0.9 1 0.5 0 1.1 0.1 50 30 35
amaut-vs END2-L2 45 70 0.0001 0.55 0.9 1 0.1 1 1.1 0.5 50 30 35
amaut-vs ENSC-L1 45 70 0.0001 0.55 0.9 1 1 0 1.1 0.01 50 30 35
amaut-vs ENSC-L2 45 70 0.0001 0.55 0.9 1 0 0.5 1.1 1 50 30 35
amaut-vs TST-L1 45 70 0.0001 0.55 0.9 1 0.1 1 1.1 0.6 50 30 35
amaut-vs TST-L2 45 70 0.0001 0.55 0.9 1 0.5 1 1.1 1 50 30 35
amaut-vs PSH-L1 45 70 0.0001 0.55 0.9 1 0.1 0.1 1.1 0.5 50 30 35
amaut-vs PSH-L2 45 70 0.0001 0.55 0.9 1 1 1 1.1 0 50 30 35
amaut-sc2 WHN-L1 20 70 0.0001 0.55 0.9 1 1 0 1.1 0.5 50 30 35
amaut-sc2 WHN-L2 15 70 0.0001 0.55 0.9 1 1 0 1.1 1 50 30 35
amaut-sc2 ENQ-L1 60 70 0.0001 0.55 0.75 1 1 1 2 0.05 50 30 35
amaut-sc2 ENQ-L2 60 70 0.0001 0.55 0.75 1 1 0.1 2.5 1 50 30 35
amaut-sc2 END1-L1,END1-L2,END2-L1,END2-L2 60 70 0.0001 0.55 0.75 1 1 1 2 1 50 30 35
amaut-sc2 ENSC-L1,ENSC-L2 60 70 0.0001 0.55 0.9 1 1 0 1.1 0 50 30 35
amaut-sc2 TST-L1 60 70 0.0001 0.55 0.9 1 1 0 1.6 1 50 30 35
amaut-sc2 TST-L2 15 70 0.0001 0.55 0.9 1 1 1 1.6 1 50 30 35
amaut-sc2 PSH-L1 60 70 0.0001 0.55 0.9 1 1 0.1 1.6 0.05 50 30 35
amaut-sc2 PSH-L2 60 70 0.0001 0.55 0.9 1 1 1 1.6 0.05 50 30 35
amaut-rs WHN-L1,TST-L2 15 70 0.0001 0.55 0.7 1 1 1 1.1 0.05 40 10 1
amaut-rs WHN-L2 15 70 0.0001 0.55 0.7 1 1 1 1.1 0.1 40 10 1
amaut-rs ENQ-L1 15 70 5e-05 0.55 0.7 1 0.25 0.25 1.1 0.1 40 10 1
amaut-rs ENQ-L2 15 70 5e-05 0.45 0.7 1 0.5 0.5 1.1 0.05 40 10 1
amaut-rs END1-L1,END2-L1 15 70 0.0001 0.55 0.7 1 0.5 0.5 1.1 0.05 40 10 1
amaut-rs END1-L2 15 70 5e-05 0.55 0.7 1 1 1 1.1 0.05 40 10 1
amaut-rs END2-L2 15 70 5e-05 0.55 0.7 1 0.5 0.5 1.1 0.1 40 10 1
amaut-rs ENSC-L1 15 70 5e-05 0.45 0.7 1 1 1 1.1 0.1 40 10 1
amaut-rs ENSC-L2 15 70 5e-05 0.45 0.7 1 1 0.1 1.1 0.05 40 10 1
amaut-rs TST-L1 15 70 0.0001 0.55 0.7 1 0.5 0.5 1.1 0.1 40 10 1
amaut-rs PSH-L1,PSH-L2 15 70 5e-05 0.45 0.7 1 0 0 1.1 0.05 40 10 1
hubert-us8 WHN-L1 10 33 0.0001 0.35 0.75 1 0.25 0.25 1.1 0.1 50 30 35
hubert-us8 WHN-L2 10 33 0.0001 0.35 0.9 1 0.25 0.25 1.1 0.05 50 30 35
hubert-us8 ENSC-L1,ENSC-L2 10 33 0.0001 0.35 0.75 1 0.01 0.01 1.1 0.1 50 40 35
hubert-us8 TST-L1,TST-L2 10 33 0.0001 0.35 0.9 1 0.01 0.01 1.1 0.1 50 30 35
hubert-us8 PSH-L1,PSH-L2 10 33 5e-05 0.35 0.75 1 0.01 0.01 1.1 0.1 50 30 35
hubert-vs WHN-L1 15 32 5e-05 0.55 0.9 0.1 1 1 1.1 0.1 50 30 35
hubert-vs WHN-L2,ENQ-L1,ENQ-L2 15 32 0.0001 0.55 0.9 0.1 1 1 1.1 0.1 50 30 35
hubert-vs END1-L1 15 32 0.0001 0.55 0.75 1 0.05 0.05 1.1 0.1 50 30 35
hubert-vs END1-L2 15 32 5e-05 0.55 0.9 1 0.05 0.05 1.1 0.5 50 30 35
hubert-vs END2-L1 15 32 0.0001 0.55 0.9 1 0.05 0.05 1.1 0.5 50 30 35
hubert-vs END2-L2 15 32 5e-05 0.55 0.9 1 0.05 0.05 1.1 1 50 30 35
hubert-vs ENSC-L1 15 32 5e-05 0.55 0.9 1 0.1 0.1 1.1 0.1 50 30 35
hubert-vs ENSC-L2 15 32 0.0001 0.55 0.9 1 0.1 0.1 1.1 0.1 50 30 35
hubert-vs TST-L1,TST-L2 15 32 0.0001 0.55 0.9 0.1 1 1 1.1 0.05 50 30 35
hubert-vs PSH-L1 20 32 5e-05 0.55 0.75 1 0.1 0.1 1.1 0.1 50 30 35
hubert-vs PSH-L2 30 32 5e-05 0.55 0.9 1 0.1 0.1 1.1 0.1 50 30 35
hubert-sc2 WHN-L1,WHN-L2 15 70 0.0001 0.45 0.9 1 0.5 0.5 1.1 0.1 50 30 35
hubert-sc2 ENQ-L1,ENQ-L2 40 70 0.0001 0.45 0.9 1 0.5 0.5 1.1 0.1 50 30 35
hubert-sc2 END1-L1 35 70 0.0001 0.45 0.925 1 0.5 0.5 1.1 0.5 50 30 35
hubert-sc2 END1-L2 35 70 0.0001 0.45 0.925 1 0.5 0.5 1.1 0.3 50 30 35
hubert-sc2 END2-L1 35 70 0.0001 0.45 0.9 1 0.25 0.25 1.1 0.5 40 30 1
hubert-sc2 END2-L2 35 70 0.0001 0.45 0.9 1 0.25 0.25 1.1 0.6 40 30 1
hubert-sc2 ENSC-L1,PSH-L1 60 70 0.0001 0.45 0.9 1 0.5 0.5 1.1 0.1 50 30 35
hubert-sc2 ENSC-L2,PSH-L2 60 70 0.0001 0.45 0.9 1 0.5 0.5 1.1 0.05 50 30 35
hubert-sc2 TST-L1,TST-L2 40 70 0.0001 0.45 0.9 1 0.5 0.5 1.1 0.5 50 30 35
hubert-rs WHN-L1,WHN-L2 15 70 5e-05 0.35 0.9 1 0 0 1.1 0 50 30 35
hubert-rs ENQ-L1 20 70 0.0001 0.35 0.75 1 0 0 1.1 0.1 50 30 35
hubert-rs ENQ-L2 15 70 0.0001 0.35 0.9 1 0 0 1.1 0 50 30 35
hubert-rs END1-L1 15 70 5e-05 0.25 0.75 1 0 0 1.1 0.1 50 30 35
hubert-rs END1-L2 15 70 5e-05 0.35 0.9 1 0 0 2 0.1 50 30 35
hubert-rs END2-L1 30 70 5e-05 0.35 0.75 1 0 0 1.1 0.1 50 30 35
hubert-rs END2-L2 15 70 5e-05 0.35 0.9 1 0 0 1.1 0.1 50 30 35
hubert-rs ENSC-L1,ENSC-L2 15 70 0.0001 0.35 0.9 1 0.001 0.001 1.1 0.05 50 30 35
hubert-rs TST-L1,TST-L2 15 70 0.0001 0.35 0.9 1 0 0 1.1 0.1 50 30 35
hubert-rs PSH-L1,PSH-L2 20 70 1e-05 0.35 0.75 1 0 0 1.1 0.1 50 30 35
"""


@dataclass(frozen=True)
class PublishedRun:
    """Options of the method, number of epochs and batch size of one published run."""

    epochs: int
    batch_size: int
    options: dict[str, Any]


def _runs() -> Iterator[tuple[str, PublishedRun]]:
    for line in TABLE.split("\n")[1:-1]:
        group, criteria, epochs, batch_size, *values = line.split()
        options: dict[str, Any] = dict(zip(COLUMNS, map(float, values), strict=True))
        options |= {name: int(options[name]) for name in ("decay_epochs", "steady_epochs")}
        options |= OWN_CODE.get(group, {})
        for criterion in criteria.split(","):
            yield f"{group}-{criterion}", PublishedRun(int(epochs), int(batch_size), dict(options))


OWN_CODE: dict[str, dict[str, Any]] = {  # where the official training loop of one network and data set differs
    "amaut-vs": {"consistency_weight": 0.0},  # computed, but not added to the loss
    "hubert-vs": {"both_views": True},
    "hubert-sc2": {"entropy_eps": 1e-6},
}
PUBLISHED = dict(_runs())
