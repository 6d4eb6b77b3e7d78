"""Cut the golden data of AETTA down to the shipped part: four recorded batches, the edge cases and all decisions.

python tests/estimators/make_aetta_golden.py PATH_OF_THE_WHOLE_FILE
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

BATCHES = [0, 1, 7, 13]  # two healthy ones, a collapsing one, the frozen source on a correlated stream
LARGE = ("noise_k", "adv_", "softmax", "source_logits", "gde_ref", "edge_balanced", "stochastic")
KEPT = ("softmax_score", "adv_perturb", "adv_l2")


def main(whole: Path) -> None:
    """Write the small file again."""
    with np.load(whole, allow_pickle=False) as file:
        kept = {name: file[name] for name in file.files if name in KEPT or not any(word in name for word in LARGE)}
        recorded = len(file["step"])
        edges = [index for index, name in enumerate(file["edge_names"]) if f"edge_{name}_logits" in kept]
        of_edges = len(file["edge_names"])
        signs = file["adv_sign_first_batch"]
    for name, array in kept.items():
        if name.startswith("edge_") and array.shape == (of_edges,):
            kept[name] = array[edges]
        elif array.shape[:1] == (recorded,) and not name.startswith(("reset_", "mrs_")):
            kept[name] = array[BATCHES]
    kept["adv_rises_first_batch"] = np.packbits(signs > 0)  # the sign of the first batch's perturbation, bit by bit
    np.savez_compressed(Path(__file__).with_name("aetta_golden.npz"), **kept)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
