"""Data sets whose samples come from several domains: drawing and photo, one hospital and another."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from holdfast.data.image_folder import ImageFiles
from holdfast.data.on_disk import digest_of
from holdfast.registry import UnknownNameError, nearest

ImageRecord = tuple[str, str, int]  # domain, file relative to the folder, label


@runtime_checkable
class NaturalDomains(Protocol):
    """A data set with natural domains, each of which holds samples of its own.

    Its class has `domain_names` too, empty if the files decide, so that suites know that it has domains.
    """

    domain_names: Sequence[str]
    domain_of: NDArray[np.int64]  # (n,) index into the names, for each sample


class DomainImages(ImageFiles):
    """Image files with the label and the natural domain of each; `pixels` are the options of `ImageFiles`."""

    domain_names: Sequence[str] = ()

    def __init__(
        self,
        name: str,
        folder: Path,
        records: Sequence[ImageRecord],
        class_names: Sequence[str],
        **pixels: Any,
    ) -> None:
        domains, files, labels = zip(*records, strict=True)
        self.domain_names = tuple(dict.fromkeys(domains))
        number = {domain: index for index, domain in enumerate(self.domain_names)}
        self.domain_of = np.array([number[domain] for domain in domains], np.int64)
        super().__init__(name, folder, files, labels, class_names, **pixels)

    @cached_property
    def digest(self) -> str:
        """Hex digest of the files as in `image_folder`, and of the label and the domain of each."""
        files, domains = super().digest.encode(), repr(self.domain_names).encode()
        return digest_of([files, domains, self.labels.tobytes(), self.domain_of.tobytes()])


def chosen_domains(there: Sequence[str], wanted: Sequence[str] | None) -> list[str]:
    """Return the wanted ones of the domains that are there, by default all; an unknown one is refused.

    >>> chosen_domains(["photo", "sketch"], ["sketh"])
    Traceback (most recent call last):
    holdfast.registry.UnknownNameError: there is no domain 'sketh'; did you mean 'sketch'?
    """
    if isinstance(wanted, str):
        raise ValueError(f"domains must be a list of names, got {wanted!r}; pass [{wanted!r}]")
    for name in wanted or ():
        if name not in there:
            raise UnknownNameError(f"there is no domain {name!r}; {nearest(name, there)}")
    return list(there if wanted is None else wanted)
