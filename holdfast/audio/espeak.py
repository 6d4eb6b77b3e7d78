"""A program that runs eSpeak NG: it reads its task from standard input and writes PCM to standard output.

eSpeak NG keeps state between words, so the same words give the same samples only in a fresh process and in the same
order. This program imports only the standard library, so it starts quickly.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence

SAMPLE_RATE = 22_050
LENGTH_BYTES = 4  # of the length in bytes before each utterance, little-endian
# From speak_lib.h.
SYNCHRONOUS, UTF8, SPEED, PITCH = 2, 1, 1, 3
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)


def spoken(library: str, data: str, utterances: Iterable[Sequence[str | int]]) -> Iterator[bytes]:
    """Yield 16-bit mono PCM for each utterance: voice, words per minute, pitch from 0 to 99, text."""
    espeak = ctypes.CDLL(library)
    if espeak.espeak_Initialize(SYNCHRONOUS, 0, data.encode(), 0) != SAMPLE_RATE:
        raise RuntimeError(f"eSpeak NG does not start with the voices in {data}; install espeakng-loader again")
    pcm = bytearray()

    def keep(samples: ctypes.c_void_p, count: int, _events: int) -> int:
        if samples and count > 0:
            pcm.extend(ctypes.string_at(samples, 2 * count))
        return 0

    callback = CALLBACK(keep)  # kept alive while eSpeak NG may call it
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
    """Synthesise the utterances given on standard input."""
    for pcm in spoken(**json.load(sys.stdin)):
        sys.stdout.buffer.write(len(pcm).to_bytes(LENGTH_BYTES, "little") + pcm)


if __name__ == "__main__":
    main()
