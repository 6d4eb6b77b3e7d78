"""Corruptions of audio: every module of this folder registers its own."""

from holdfast.audio import FileRecording, Recording, fit_length, store_as_pcm16
from holdfast.corruptions.audio.base import AudioCorruption, audio_corruption
from holdfast.corruptions.audio.corpora import demand, qut_noise, recordings_in, speech_commands_background
from holdfast.corruptions.audio.criteria import CriterionCorruption, criterion_corruption
from holdfast.corruptions.audio.environments import environments
from holdfast.corruptions.audio.noise import mix, noise_from
from holdfast.corruptions.audio.tempo import shift_pitch, stretch
from holdfast.registry import import_entries

__all__ = [
    "AudioCorruption",
    "CriterionCorruption",
    "FileRecording",
    "Recording",
    "audio_corruption",
    "criterion_corruption",
    "demand",
    "environments",
    "fit_length",
    "mix",
    "noise_from",
    "qut_noise",
    "recordings_in",
    "shift_pitch",
    "speech_commands_background",
    "store_as_pcm16",
    "stretch",
]

import_entries(__name__)
