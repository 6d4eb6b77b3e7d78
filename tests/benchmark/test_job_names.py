"""Job names are part of the format: run folders, resuming and committed results depend on them."""

from __future__ import annotations

from hashlib import blake2b

import pytest

from holdfast.benchmark import load_suite

# Suite and scale -> a digest of all its job names in order, the second name and the last one. Recorded before jobs were
# made of Specs. A change here means that unfinished runs no longer resume and finished ones are run again.
PINNED = {
    ("demo", None): (
        "a19b4f83771aa9ad",
        "batch_norm-continual-digits_resnet-seed0-496e869b",
        "rdumb-continual-digits_resnet-seed1-6b70a6cf",
    ),
    ("arena", "smoke"): (
        "e874833e986778f8",
        "never-continual-digits_resnet-seed0-4daccfe8",
        "regret-collapse-digits_resnet-seed0-2278b294",
    ),
    ("ccc", "paper"): (
        "32d84f4f8a737450",
        "batch_norm-easy-1000-torchvision-seed43-096c5885",
        "rdumb-hard-5000-torchvision-seed45-3a2ef871",
    ),
    ("dhauds", "paper"): (
        "bd961b3d85738aa3",
        "dhauds-us8-WHN-L1-amaut-us8-offline-oracle-seed0-8f8f5701",
        "conmix without pseudo-labels-rs-TST-L2-conmix-rs-seed0-f5576b96",
    ),
    ("dhauds-online", "smoke"): (
        "4be90a2b73469212",
        "tent-criteria without reset-keywords_amaut-seed0-7ccf0c39",
        "dhauds-walk in severity-keywords_amaut-seed0-70700f14",
    ),
    ("recovery", "paper"): (
        "bbac3375baebe713",
        "tent-cifar100-c-cifar_resnet-seed0-b356c12a",
        "sotta + estimate_drop-cifar100-c-cifar_resnet-seed2-f947e1e2",
    ),
    ("unitta-sensitivity", "smoke"): (
        "c9ee65c396f31a29",
        "unitta-base-digits_resnet-seed0-e2bd693e",
        "unitta-batch-256-digits_resnet-seed0-a0a18ffa",
    ),
}


@pytest.mark.parametrize(("suite", "scale"), PINNED)
def test_job_names_stay_as_recorded(suite: str, scale: str | None) -> None:
    names = [job.name for job in load_suite(suite, scale=scale).jobs()]
    digest = blake2b("\n".join(names).encode(), digest_size=8).hexdigest()
    assert (digest, names[1], names[-1]) == PINNED[suite, scale]
