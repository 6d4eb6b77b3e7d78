"""The embedded audio: words that are easily confused, synthesised on demand and cached."""

from __future__ import annotations

import hashlib
import io
import json
import warnings
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import numpy as np

from holdfast.audio import Waveform, as_pcm16, fit_length, resample
from holdfast.audio.speech import SPEECH_RATE, Utterance, speak
from holdfast.data.audio_arrays import InMemoryAudio
from holdfast.data.base import DATASETS
from holdfast.data.on_disk import check_split, digest_of
from holdfast.machine.folders import cache_folder, held, made, write_whole
from holdfast.randomness import seeded_rng

Split: TypeAlias = Literal["train", "validation", "test"]

SAMPLE_RATE = SAMPLES = 16_000  # one second
WORDS = (
    *("bad", "bat", "pad", "pat", "bed", "bet", "pet", "bit", "pit", "three", "tree", "free"),
    *("sip", "ship", "chip", "zip", "fan", "van", "fin", "thin", "tin", "cap", "gap", "cab"),
)
ACCENTS = ("en-us", "en")
# All variants of eSpeak NG 1.52 except nine that are not deterministic and one with a space in its name.
VARIANTS = (
    *("Alex", "Andrea", "Andy", "Annie", "AnxiousAndy", "Denis", "Diogo", "Gene", "Gene2", "Henrique", "Hugo"),
    *("Jacky", "Lee", "Marco", "Mario", "Michael", "Mike", "Nguyen", "Reed", "RicishayMax", "RicishayMax2"),
    *("RicishayMax3", "Storm", "Tweaky", "UniRobot", "adam", "anika", "anikaRobot", "announcer", "antonio", "aunty"),
    *("belinda", "benjamin", "boris", "caleb", "croak", "david", "ed", "edward", "edward2", "f1", "f4", "fast"),
    *("grandma", "grandpa", "gustave", "ian", "iven", "iven2", "iven3", "iven4", "john", "kaukovalta", "klatt"),
    *("klatt2", "klatt3", "klatt4", "klatt5", "klatt6", "linda", "m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8"),
    *("marcelo", "max", "michel", "miguel", "mike2", "norbert", "pablo", "paul", "pedro", "quincy", "rob", "robert"),
    *("robosoft", "robosoft2", "robosoft3", "robosoft4", "robosoft5", "robosoft6", "robosoft7", "robosoft8"),
    *("shelby", "steph", "steph2", "steph3", "travis", "zac"),
)
CHECKSUMS = "checksums.json"


@DATASETS.register("keywords")
class Keywords(InMemoryAudio):
    """24 confusable words of one second at 16 kHz, such as three, tree and free, from 188 voices of eSpeak NG.

    No voice is in two splits: train 2784, validation 576 and test 1152 clips. They are synthesised at first use (needs
    the extra `audio`) and kept with checksums in the cache folder, or in `cache`.
    """

    citation = "Dunn et al., eSpeak NG 1.52, 2024"

    def __init__(self, split: Split = "test", *, cache: str | Path | None = None) -> None:
        check_split("keywords", split, get_args(Split))
        folder = made((Path(cache).expanduser() if cache else cache_folder("keywords")) / _identity())
        content = _kept(folder, split)
        if content is None:
            with held(folder, wait=True):
                content = _kept(folder, split) or _rendered(folder)[split]
        with np.load(io.BytesIO(content), allow_pickle=False) as stored:
            clips = np.split(stored["pcm"] / np.float32(32768), stored["ends"][:-1])
        super().__init__(
            np.stack([fit_length(clip, SAMPLES) for clip in clips]),
            np.array([WORDS.index(spoken.text) for spoken in utterances(split)], np.int64),
            sample_rate=SAMPLE_RATE,
            name=f"keywords/{split}",
            class_names=WORDS,
        )


def utterances(split: Split) -> list[Utterance]:
    """Return the utterances of a split: every voice says every word, at its own pitch and speed.

    >>> utterances("test")[0]
    Utterance(voice='en-us+Andrea', words_per_minute=159, pitch=66, text='bad')
    """
    return [
        Utterance(voice, *_manner(voice), word)
        for variant in _variants(split)
        for voice in (f"{accent}+{variant}" for accent in ACCENTS)
        for word in WORDS
    ]


def _variants(split: Split) -> Sequence[str]:
    test, validation = VARIANTS[1::4], VARIANTS[3::8]
    train = [variant for variant in VARIANTS if variant not in (*test, *validation)]
    return {"train": train, "validation": validation, "test": test}[split]


def _manner(voice: str) -> tuple[int, int]:
    """Return words per minute and pitch of a voice."""
    rng = seeded_rng(0, f"keywords/{voice}")
    return int(rng.integers(140, 200)), int(rng.integers(30, 70))


def _identity() -> str:
    """Return a digest of the word lists and of the packages that synthesise them."""
    try:
        packages = [metadata.version(name) for name in ("espeakng-loader", "soxr")]
    except metadata.PackageNotFoundError as error:
        problem = f"keywords are synthesised by eSpeak NG, and {error.name} is not installed"
        raise ImportError(f'{problem}: pip install "holdfast[audio]"') from error
    content = repr([packages, SAMPLE_RATE, *(utterances(split) for split in get_args(Split))])
    return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()


def _kept(folder: Path, split: Split) -> bytes | None:
    """Return a cached split, or None if it is missing or damaged."""
    try:
        content = (folder / f"{split}.npz").read_bytes()
        if json.loads((folder / CHECKSUMS).read_text())[split] == digest_of([content]):
            return content
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return None


def _rendered(folder: Path) -> dict[Split, bytes]:
    """Synthesise all splits in one process and one order, because eSpeak NG keeps state, and cache them."""
    if (folder / CHECKSUMS).exists():
        warnings.warn(f"the keywords in {folder} are damaged and will be synthesised again", stacklevel=3)
    splits: list[Split] = [*get_args(Split)]
    lists = {split: utterances(split) for split in splits}
    waveforms = iter(speak(utterance for split in splits for utterance in lists[split]))
    contents = {split: _stored([next(waveforms) for _ in lists[split]]) for split in splits}
    for split, content in contents.items():
        write_whole(folder / f"{split}.npz", content)
    checksums = {split: digest_of([content]) for split, content in contents.items()}
    # Written last, because it marks the others as complete.
    write_whole(folder / CHECKSUMS, (json.dumps(checksums, indent=2) + "\n").encode())
    return contents


def _stored(waveforms: list[Waveform]) -> bytes:
    """Return an npz file of 16-bit clips at their own lengths, concatenated."""
    clips = [as_pcm16(resample(waveform, SPEECH_RATE, SAMPLE_RATE)) for waveform in waveforms]
    file = io.BytesIO()
    np.savez(file, pcm=np.concatenate(clips), ends=np.cumsum([len(clip) for clip in clips]))
    return file.getvalue()
