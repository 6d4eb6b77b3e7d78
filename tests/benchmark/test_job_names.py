"""Job names are part of the format: run folders, resuming and committed results depend on them."""

from __future__ import annotations

from hashlib import blake2b

import pytest

from holdfast.benchmark import load_suite

# Suite and scale -> a digest of all its job names in order, the second name and the last one. Recorded before jobs were
# made of Specs, and again for suites whose content has changed since. A change here means that unfinished runs no
# longer resume and finished ones are run again.
PINNED = {
    ("demo", None): (
        "a19b4f83771aa9ad",
        "batch_norm-continual-digits_resnet-seed0-496e869b",
        "rdumb-continual-digits_resnet-seed1-6b70a6cf",
    ),
    ("arena", "smoke"): (
        "9d7677604efe9be4",
        "never-continual-digits_resnet-seed0-cca42397",
        "guard's alarm-collapse-digits_resnet-seed0-ba0fe81f",
    ),
    ("ccc", "paper"): (
        "e3989455357dc150",
        "batch_norm-easy-1000-ResNet-50-seed43-ebea4f59",
        "rdumb-hard-5000-ResNet-50-seed45-87f3d85f",
    ),
    ("dhauds", "paper"): (
        "1a831b3390f92da7",
        "dhauds-us8-WHN-L1-amaut-us8-offline-oracle-seed0-47a0fb18",
        "conmix without pseudo-labels-rs-TST-L2-conmix-rs-seed0-96b4b185",
    ),
    ("dhauds-online", "smoke"): (
        "4be90a2b73469212",
        "tent-criteria without reset-keywords_amaut-seed0-7ccf0c39",
        "dhauds-walk in severity-keywords_amaut-seed0-70700f14",
    ),
    ("recovery", "paper"): (
        "2ba9cf2c37cd806b",
        "tent-cifar100-c-ResNet-18-seed0-c0f5100a",
        "sotta + estimate_drop-cifar100-c-ResNet-18-seed2-6283fcec",
    ),
    ("unitta-sensitivity", "smoke"): (
        "12a0f557e6f4b63e",
        "unitta-base-digits_resnet-seed0-f720c888",
        "unitta-batch-256-digits_resnet-seed0-74ccdf0f",
    ),
}


@pytest.mark.parametrize(("suite", "scale"), PINNED)
def test_job_names_stay_as_recorded(suite: str, scale: str | None) -> None:
    names = [job.name for job in load_suite(suite, scale=scale).jobs()]
    digest = blake2b("\n".join(names).encode(), digest_size=8).hexdigest()
    assert (digest, names[1], names[-1]) == PINNED[suite, scale]
