"""A program of its own that lets eSpeak NG speak: it reads its task from standard input and writes PCM to its output.

eSpeak NG remembers earlier words, so the same words sound the same only in a fresh process, in the same order. This
one imports nothing but the standard library and starts at once.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence

__all__ = ["LENGTH_BYTES", "SAMPLE_RATE", "main", "spoken"]

SAMPLE_RATE = 22_050
LENGTH_BYTES = 4  # before each utterance: its length in bytes, little-endian
# From speak_lib.h.
SYNCHRONOUS, UTF8, SPEED, PITCH = 2, 1, 1, 3
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)


def spoken(library: str, data: str, utterances: Iterable[Sequence[str | int]]) -> Iterator[bytes]:
    """Yield 16-bit mono PCM of each utterance: a voice, words a minute, a pitch from 0 to 99, and the text."""
    espeak = ctypes.CDLL(library)
    if espeak.espeak_Initialize(SYNCHRONOUS, 0, data.encode(), 0) != SAMPLE_RATE:
        raise RuntimeError(f"eSpeak NG does not start with the voices in {data}; install espeakng-loader again")
    pcm = bytearray()

    def keep(samples: ctypes.c_void_p, count: int, events: int) -> int:
        if samples and count > 0:
            pcm.extend(ctypes.string_at(samples, 2 * count))
        return 0

    callback = CALLBACK(keep)  # has to live as long as it may be called
    espeak.espeak_SetSynthCallback(callback)
    for voice, words_per_minute, pitch, text in utterances:
        pcm.clear()
        _done(espeak.espeak_SetVoiceByName, str(voice).encode())
        _done(espeak.espeak_SetParameter, SPEED, words_per_minute, 0)
        _done(espeak.espeak_SetParameter, PITCH, pitch, 0)
        letters = str(text).encode()
        _done(espeak.espeak_Synth, letters, ctypes.c_size_t(len(letters) + 1), 0, 0, 0, UTF8, None, None)
        yield bytes(pcm)


def _done(function: Callable[..., int], *arguments: object) -> None:
    code = function(*arguments)
    if code:
        raise RuntimeError(f"eSpeak NG refused {function.__name__}{arguments} with error {code}")


def main() -> None:
    """Speak what standard input asks for."""
    for pcm in spoken(**json.load(sys.stdin)):
        sys.stdout.buffer.write(len(pcm).to_bytes(LENGTH_BYTES, "little") + pcm)


if __name__ == "__main__":
    main()
