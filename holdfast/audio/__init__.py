"""Audio as waveforms: length, sample rate, decoding and synthesised speech."""

from holdfast.audio.clips import CLIPS, FULL_NAMES, short_name, version_named
from holdfast.audio.decoding import read_audio
from holdfast.audio.recordings import FileRecording, Recording, StoredRecording
from holdfast.audio.waveforms import Waveform, as_pcm16, fit_length, resample, store_as_pcm16

__all__ = [
    "CLIPS",
    "FULL_NAMES",
    "FileRecording",
    "Recording",
    "StoredRecording",
    "Waveform",
    "as_pcm16",
    "fit_length",
    "read_audio",
    "resample",
    "short_name",
    "store_as_pcm16",
    "version_named",
]
