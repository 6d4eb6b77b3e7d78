"""Speech synthesised by eSpeak NG."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from holdfast.audio import espeak
from holdfast.audio.waveforms import Waveform
from holdfast.machine.extras import extra

SPEECH_RATE = espeak.SAMPLE_RATE


class Utterance(NamedTuple):
    """A text and how to say it: an eSpeak NG voice such as "en-us+Andy", its speed, its pitch from 0 to 99."""

    voice: str
    words_per_minute: int
    pitch: int
    text: str


def speak(utterances: Iterable[Utterance]) -> list[Waveform]:
    """Synthesise utterances at 22.05 kHz in one fresh process, in the given order.

    Needs the extra `audio`. Most voices are deterministic; a few read uninitialised memory
    (Alicia, Demonic, f2, f3, f5, sandro, victor, whisper, whisperf).
    """
    espeakng_loader = extra("audio", "espeakng_loader", "speech synthesis by eSpeak NG needs")
    task = {
        "library": espeakng_loader.get_library_path(),
        "data": espeakng_loader.get_data_path(),
        "utterances": list(utterances),
    }
    command = [sys.executable, "-I", str(Path(espeak.__file__))]
    done = subprocess.run(command, input=json.dumps(task).encode(), capture_output=True)
    if done.returncode:
        last_line = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise RuntimeError(f"eSpeak NG failed ({last_line}); install espeakng-loader again")
    return list(_waveforms(memoryview(done.stdout)))


def _waveforms(output: memoryview) -> Iterator[Waveform]:
    while output:
        end = espeak.LENGTH_BYTES + int.from_bytes(output[: espeak.LENGTH_BYTES], "little")
        yield np.frombuffer(output[espeak.LENGTH_BYTES : end], "<i2") / np.float32(32768)
        output = output[end:]
