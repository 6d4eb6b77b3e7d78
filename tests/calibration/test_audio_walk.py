"""Audio walks: calibrated, rendered and crossed with chains like image walks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from holdfast.calibration import CalibrationSettings, calibrate
from holdfast.data import InMemoryAudio
from holdfast.streams import ccc, cross

TIME = np.arange(1_600) / 16_000
LABELS = np.arange(45) % 3


class ShortEar(nn.Module):
    """Distinguishes three tones by their first eight samples, so that weak noise causes errors."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 3)
        with torch.no_grad():
            self.head.weight.copy_(torch.eye(3))
            self.head.bias.zero_()

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.head(torch.fft.rfft(inputs[:, :8])[:, 1:4].abs())
        return logits


def test_a_walk_is_calibrated_for_audio(tmp_path: Path) -> None:
    phases = np.random.default_rng(0).uniform(0, 6, len(LABELS))
    tones = [np.sin(2 * np.pi * 2000 * (1 + label) * TIME + phase) for label, phase in zip(LABELS, phases, strict=True)]
    data = InMemoryAudio(np.float32(0.3 * np.stack(tones)), LABELS, sample_rate=16_000)
    pairs = [["white_noise", "ensc"]]
    settings = CalibrationSettings(target_percent=75.0, pairs=pairs, pictures=45)
    calibration = calibrate(ShortEar(), data, settings, cache=tmp_path)
    assert calibration.family is None
    (path,) = calibration.transitions
    percent = np.array(path.matrix_percent)
    assert percent[0, 0] == 100
    assert percent[20, 20] < 85
    stream = ccc(data, calibration=calibration, images_per_step=9)
    batch = next(stream.starting_at(batch_size=9))
    assert batch.inputs.shape == (9, 1_600)
    assert batch.domains == ("white_noise+ensc",) * 9
    assert batch.expected is not None
    # The accuracy along the walk is about as measured.
    accuracies = [
        float((ShortEar()(clips.inputs).argmax(1).numpy() == clips.labels).mean())
        for clips in stream.starting_at(batch_size=9)
    ]
    assert abs(100 * np.mean(accuracies) - path.mean_percent) < 12
    crossed = cross(data, calibration=calibration, classes={"stay": 0.9}, images_per_step=9)
    assert crossed.first(20).shape == (20, 1_600)
