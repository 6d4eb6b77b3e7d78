"""The embedded noise: environments mixed from synthesised noise, so that nothing has to be downloaded.

They have the names of the environments of the corpora that they replace; they do not imitate any recording.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from holdfast.audio import Waveform
from holdfast.corruptions.audio.procedural import SYNTHESISERS
from holdfast.randomness import seeded_rng

SECONDS = 20
RMS = 0.1

ENVIRONMENTS: dict[str, dict[str, dict[str, float]]] = {  # family -> environment -> synthesisers and their levels
    "enq": {
        "CAFE": {"babble": 1, "clatter": 0.5},
        "CAR": {"engine": 0.7, "rumble": 1},
        "HOME": {"tap": 0.5, "hum": 0.3, "talk": 0.7},
        "REVERB": {"steps": 0.8, "rumble": 0.5, "talk": 0.4},
        "STREET": {"traffic": 1, "steps": 0.4, "wind": 0.4},
    },
    "end1": {
        "DKITCHEN": {"clatter": 1, "tap": 0.5},
        "NFIELD": {"wind": 1, "birds": 0.3},
        "STRAFFIC": {"traffic": 1, "engine": 0.5},
        "PRESTO": {"babble": 1, "clatter": 0.3, "pink": 0.2},
        "TCAR": {"engine": 1, "wind": 0.4},
        "OOFFICE": {"fan": 0.6, "keys": 0.8},
    },
    "end2": {
        "DLIVING": {"talk": 1, "hum": 0.4},
        "NRIVER": {"river": 1, "rain": 0.5},
        "OHALLWAY": {"steps": 1, "fan": 0.4, "talk": 0.3},
        "PSTATION": {"babble": 0.8, "rumble": 0.7},
        "SPSQUARE": {"babble": 0.7, "wind": 0.5, "traffic": 0.5},
        "TMETRO": {"rumble": 1, "motor": 0.5},
    },
    "ensc": {
        "doing_the_dishes": {"clatter": 1, "river": 0.4},
        "dude_miaowing": {"mewing": 1, "pink": 0.1},
        "exercise_bike": {"bike": 1, "motor": 0.3},
        "running_tap": {"tap": 1},
        "white_noise": {"white": 1},
        "pink_noise": {"pink": 1},
    },
    "training": {  # of DEMAND, but in no criterion; NRIVER is for UrbanSound8K, whose criteria do not contain it
        "OMEETING": {"talk": 1, "fan": 0.4, "keys": 0.2},
        "DWASHING": {"motor": 0.7, "river": 0.6},
        "PCAFETER": {"babble": 1, "clatter": 0.6, "hum": 0.2},
        "TBUS": {"engine": 0.9, "talk": 0.3, "rumble": 0.4},
        "NRIVER": {"river": 1, "rain": 0.5},
    },
}


@dataclass(frozen=True)
class ProceduralRecording:
    """Twenty seconds of an environment, deterministic."""

    family: str
    label: str

    @property
    def name(self) -> str:
        """Family and label."""
        return f"{self.family}/{self.label}"

    @property
    def identity(self) -> str:
        """Its name, which determines it."""
        return f"procedural {self.name}"

    def samples(self, sample_rate: int) -> int:
        """Return its number of samples at this rate."""
        return SECONDS * sample_rate

    def cut(self, start: int, samples: int, sample_rate: int) -> Waveform:
        """Return `samples` samples from `start` on, at this rate."""
        return _rendered(self.family, self.label, sample_rate)[start : start + samples]


@lru_cache(maxsize=64)
def _rendered(family: str, label: str, sample_rate: int) -> Waveform:
    rng = seeded_rng(0, f"noise/{family}/{label}")
    total = np.zeros(SECONDS * sample_rate)
    for name, level in ENVIRONMENTS[family][label].items():
        sound = SYNTHESISERS[name](rng, len(total), sample_rate)
        total += level * sound / np.sqrt(np.mean(sound**2))
    return np.asarray(total * (RMS / np.sqrt(np.mean(total**2))), np.float32)


def environments(family: str, labels: Iterable[str] | None = None) -> list[ProceduralRecording]:
    """Return the embedded environments of a family, all of them or those with the given labels.

    >>> [recording.label for recording in environments("enq")]
    ['CAFE', 'CAR', 'HOME', 'REVERB', 'STREET']
    """
    return [ProceduralRecording(family, label) for label in (ENVIRONMENTS[family] if labels is None else labels)]
