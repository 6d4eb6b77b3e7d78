"""The settings of the UniTTA benchmark: 24 combinations of correlation and balance of classes and domains."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from holdfast.data import Dataset
from holdfast.records import Domain
from holdfast.registry import UnknownNameError, nearest
from holdfast.streams.builder import STREAMS
from holdfast.streams.catalogue.markov import markov
from holdfast.streams.chains.markov_plan import Mode
from holdfast.streams.stream import Stream

# The order of the continual settings; in imbalanced ones the first is the head.
UNITTA_DOMAINS = (
    "motion_blur",
    "snow",
    "fog",
    "shot_noise",
    "defocus_blur",
    "contrast",
    "zoom_blur",
    "brightness",
    "frost",
    "elastic_transform",
    "glass_blur",
    "gaussian_noise",
    "pixelate",
    "jpeg_compression",
    "impulse_noise",
)
CLASSES: Mapping[str, dict[str, Any]] = {  # correlation, then balance
    "(i,1)": {"stay": "iid", "imbalance": 1.0},
    "(i,u)": {"stay": "iid", "imbalance": 10.0},
    "(n,1)": {"stay": 0.95, "imbalance": 1.0},
    "(n,u)": {"stay": 0.95, "imbalance": 10.0},
}
DOMAINS: Mapping[str, dict[str, Any]] = {
    "(1,1)": {"stay": "continual", "imbalance": 1.0},
    "(1,u)": {"stay": "continual", "imbalance": 5.0},
    "(i,1)": {"stay": "iid", "imbalance": 1.0},
    "(i,u)": {"stay": "iid", "imbalance": 5.0},
    "(n,1)": {"stay": 0.85, "imbalance": 1.0},
    "(n,u)": {"stay": 0.85, "imbalance": 5.0},
}

UNITTA_SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    f"{classes}/{domains}": {"classes": CLASSES[classes], "domains": DOMAINS[domains]}
    for classes, domains in product(CLASSES, DOMAINS)
}
UNITTA_MAIN = tuple(
    f"{classes}/{domains}"
    for classes, domains in product(("(i,1)", "(n,1)", "(n,u)"), ("(1,1)", "(i,1)", "(i,u)", "(n,1)", "(n,u)"))
    if classes != "(i,1)" or domains in ("(1,1)", "(i,1)")
)
# The settings of other papers, as classified in the paper's Table 1; their original class orders were drawn otherwise.
ALIASES = {
    "cotta": "(i,1)/(1,1)",
    "rotta": "(n,1)/(1,1)",
    "tribe": "(n,u)/(1,1)",
    "roid": "(i,1)/(i,1)",
    "lame": "(n,1)/(1,1)",
    "lame-imbalanced": "(n,u)/(1,1)",
}


@STREAMS.register("unitta", citation="Du et al., arXiv 2407.20080 (UniTTA)", extends=STREAMS["markov"])
def unitta(
    data: Dataset,
    *,
    setting: str,
    corruptions: Sequence[str | Domain] = UNITTA_DOMAINS,
    mode: Mode = "official",
    classes: Mapping[str, Any] | None = None,
    domains: Mapping[str, Any] | None = None,
    **options: Any,
) -> Stream:
    """A setting of the UniTTA benchmark by name, classes before domains: "(n,u)/(1,1)", or a paper's: "rotta".

    The official code rounds the probability of 15 domains to 0.067; here it is 1/15.

    Args:
        data: labelled samples, such as `Digits()`.
        setting: classes before domains, "(n,u)/(1,1)", or that of a paper: "rotta".
        corruptions: names of the domains.
        mode: "official" follows the official code, whose i.i.d. imbalanced streams use up the tail first; "stationary"
            has the same proportions throughout.
        classes: further options of the class chain, such as another head.
        domains: further options of the domain chain.
        **options: those of `markov`.
    """
    if setting.startswith("lame") and len(corruptions) != 1:
        raise ValueError(f"the setting {setting!r} needs exactly one corruption, got {len(corruptions)}")
    defaults = unitta_setting(setting)
    return markov(
        data,
        corruptions=corruptions,
        mode=mode,
        classes={**defaults["classes"], **(classes or {})},
        domains={**defaults["domains"], **(domains or {})},
        **options,
    )


def unitta_setting(name: str) -> dict[str, dict[str, Any]]:
    """Return the options of both chains; parentheses and commas may be left out.

    >>> unitta_setting("nu/11") == unitta_setting("(n,u)/(1,1)") == unitta_setting("tribe")
    True
    """
    full = {re.sub("[(),]", "", setting): setting for setting in UNITTA_SETTINGS}
    short = re.sub(r"[(),\s]", "", ALIASES.get(name, name))
    if short not in full:
        raise UnknownNameError(f"unknown setting {name!r}; {nearest(name, [*UNITTA_SETTINGS, *ALIASES])}")
    return {what: dict(options) for what, options in UNITTA_SETTINGS[full[short]].items()}
