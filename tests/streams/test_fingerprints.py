"""Fingerprints and protocols of ordinary streams equal the committed ones.

Results, exported shards and comparisons between runs refer to them. A value may change only together with the inputs
of its stream, and then the changelog names it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from holdfast.data import Crop, Digits, InMemoryAudio, InMemoryImages
from holdfast.streams import (
    Calibration,
    Stream,
    ccc,
    continual,
    correlated,
    cross,
    dhauds,
    gradual,
    markov,
    mixed_domains,
    reset_each_shift,
    unitta,
)

NAMES = ["gaussian_noise", "clean", "shot_noise+contrast"]
IMAGES = InMemoryImages(
    np.arange(40 * 32 * 32 * 3, dtype=np.uint32).reshape(40, 32, 32, 3).astype(np.uint8), np.arange(40) % 4
)
TONES = InMemoryAudio(
    np.float32(np.sin(np.outer(np.arange(1, 7), np.arange(4_000)) / 9)), np.arange(6) % 3, sample_rate=16_000
)
STORED = """{"schema": 1, "transitions": [{"first": "contrast", "second": "brightness",
 "cells": [[2, 0], [1, 0], [1, 1], [0, 1]], "expected_percent": [30.0, 50.0, 40.0, 60.0], "margin_percent": 1.5,
 "pictures": 100, "matrix_percent": [], "measured": [[0, 0], [2, 0]]}], "target_percent": 40.0,
 "difficulty": null, "clean_percent": 90.0, "chance_percent": 25.0, "path_rule": "official", "family": "224",
 "storage_jpeg_quality": 85, "model": "0f", "data": "f0", "seed": null, "left_out": {"fog": "too weak"}}"""
CALIBRATION = Calibration.from_json(STORED)

STREAMS_AS_COMMITTED: dict[str, Callable[[], Stream]] = {
    "continual on digits": lambda: continual(Digits("test"), corruptions=NAMES, samples_per_domain=100, seed=1),
    "continual, every option": lambda: continual(
        IMAGES,
        corruptions=NAMES,
        severity=3,
        cycles=2,
        shuffle_steps=True,
        order="correlated",
        slots=3,
        family="64",
        storage_jpeg_quality=85,
        draws="position",
    ),
    "reset_each_shift": lambda: reset_each_shift(IMAGES, corruptions=NAMES, samples_per_domain=100),
    "mixed_domains": lambda: mixed_domains(IMAGES, corruptions=NAMES),
    "gradual": lambda: gradual(IMAGES, corruptions=NAMES),
    "correlated": lambda: correlated(IMAGES, corruptions=NAMES),
    "markov": lambda: markov(IMAGES, corruptions=NAMES, classes={"stay": 0.9}, samples=60, seed=2),
    "unitta, official": lambda: unitta(IMAGES, setting="(n,u)/(n,u)", samples_per_stratum=8, seed=2),
    "unitta, stationary": lambda: unitta(IMAGES, setting="(i,1)/(1,u)", mode="stationary", samples=90),
    "ccc": lambda: ccc(IMAGES, calibration=CALIBRATION, images_per_step=10),
    "ccc, cropped": lambda: ccc(IMAGES, calibration=replace(CALIBRATION, crop=Crop("shifted")), images_per_step=10),
    "cross": lambda: cross(IMAGES, calibration=CALIBRATION, images_per_step=10, classes={"stay": 0.9}),
    "dhauds": lambda: dhauds(TONES, criteria=["WHN-L1", "TST-L2"], seed=1),
}
EXPECTED = {  # fingerprint, protocol
    "continual on digits": ("5ce98a0d850098286947d9b2e5ecc293", "3fc270479ccda4ba6e1efb19eac441e0"),
    "continual, every option": ("4b5186d87ca5b06a1daf7867a11e1cfd", "192a71f79f8b5a358c0aca4d7a67ef31"),
    "reset_each_shift": ("7cdf34483b804510c0053be65cfb5b90", "63517f970721f828a256636063c27c68"),
    "mixed_domains": ("dab793f61e54909ccf694f88af7c6df8", "0ace6e2a42f5d24c6b9e939c62762083"),
    "gradual": ("064c2b12fffdf98e9f57371ffe17b32b", "dcf49b22f7e3353bc1a0ac8d57c48147"),
    "correlated": ("1564dcf215156624ba8d456c78864c35", "fc314980810dd8309f4962861b813849"),
    "markov": ("9ad3d76e3f4c7f7ff71e90e5f511f8c2", "4622c8a07ece39398b743b63131e664a"),
    "unitta, official": ("fd962aa3f5ccaf176ac84c40d63104c1", "47441455176de5df859321897cb75281"),
    "unitta, stationary": ("87d65fc85ad2e75f3c4e9c0ff0baef73", "e0f8847a96c4229c1feaba3971b2a5ed"),
    "ccc": ("40e0677e4619db21b384daff81d4c5c7", "a04d5506745411c0758676cfa0c22bc2"),
    "ccc, cropped": ("d65462872d2fc8a1bbaf0b96be4b3ef9", "8964e5cd7c3976c70ae3af5d0229410b"),
    "cross": ("3eb3cecf37294c8932f778c38a3268c3", "f5838ac2a7a78b35eacf8da3c29784be"),
    "dhauds": ("e00e0bdc2a73d9826501552cf4ca8391", "8e13c210e5846304313d8d135d2023e2"),
}


@pytest.mark.parametrize("name", STREAMS_AS_COMMITTED)
def test_fingerprints_and_protocols_are_as_committed(name: str) -> None:
    stream = STREAMS_AS_COMMITTED[name]()
    assert (stream.fingerprint, stream.protocol) == EXPECTED[name]


def test_stored_calibrations_keep_their_keys() -> None:
    assert json.loads(CALIBRATION.to_json()) == json.loads(STORED)
    assert CALIBRATION.transitions[0].points == ((2, 0), (1, 0), (1, 1), (0, 1))
