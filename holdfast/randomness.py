"""Counter-based generators: draws depend on their key only, not on what was drawn before or where."""

from __future__ import annotations

import hashlib

import numpy as np


def seed_for(seed: int, purpose: str, index: int = 0) -> int:
    """Return a 63-bit seed that depends on all three arguments, for generators of other libraries.

    >>> seed_for(0, "views", 3) == seed_for(0, "views", 3) != seed_for(0, "views", 4)
    True
    """
    digest = hashlib.blake2b(f"{seed}/{purpose}/{index}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def seeded_rng(seed: int, purpose: str, index: int = 0) -> np.random.Generator:
    """Return the generator of one (seed, purpose, index), an independent Philox stream (Salmon et al., SC 2011).

    >>> bool(seeded_rng(0, "noise", 7).random() == seeded_rng(0, "noise", 7).random())
    True
    """
    key = np.frombuffer(hashlib.blake2b(f"{seed}/{purpose}".encode(), digest_size=16).digest(), np.uint64)
    # Draws advance the low words of the counter; the index is above them, so streams cannot overlap.
    return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, index, 0]))
