"""Strips: samples of the stream as the model saw them, written by the run beside its folder."""

from __future__ import annotations

from html import escape
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from holdfast.report.runs import DamagedRunError, RunRecord


class Excerpt(BaseModel):
    """Consecutive samples at one position of the stream, as links that hold their data."""

    model_config = ConfigDict(frozen=True)

    position: int
    domain: str
    severities: dict[str, float]  # by corruption
    images: list[str]  # of audio: spectrograms
    audio: str | None = Field(default=None, pattern="^data:audio/wav;base64,")

    @property
    def caption(self) -> str:
        """Position, domain and severity in words.

        >>> Excerpt(position=1200, domain="fog", severities={"fog": 5.0}, images=[]).caption
        '1,200: fog 5'
        >>> Excerpt(position=0, domain="clean", severities={}, images=[]).caption
        '0: clean'
        """
        levels = " + ".join(f"{name} {severity:g}" for name, severity in self.severities.items())
        return f"{self.position:,}: {levels or self.domain}"


_STRIP = TypeAdapter(list[Excerpt])


def read_strip(run: RunRecord) -> list[Excerpt]:
    """Return the strip of the stream of a run; empty for runs of versions that wrote none."""
    manifest = run.manifest
    name = f"{manifest.protocol.get('stream')}-{manifest.seed}-{manifest.stream.length or 'endless'}.json"
    path = Path(run.folder).resolve().parent / "strips" / name
    if not path.exists():
        return []
    try:
        return _STRIP.validate_json(path.read_bytes())
    except ValidationError as error:
        raise DamagedRunError(
            f"{path} is not a strip of a stream ({error.errors()[0]['msg']}); delete it to report without it"
        ) from error


def strip_to_html(excerpts: list[Excerpt]) -> str:
    """Return the samples side by side, in order of arrival, with a player below those that can be heard."""
    return f"<div class='strip'>{''.join(map(_excerpt_html, excerpts))}</div>"


def _excerpt_html(excerpt: Excerpt) -> str:
    caption = escape(excerpt.caption, quote=True)
    images = "".join(f'<img src="{escape(image)}" alt="{caption}">' for image in excerpt.images)
    heard = f'<audio controls preload="none" src="{escape(excerpt.audio)}"></audio>' if excerpt.audio else ""
    kind = "audio" if excerpt.audio else "image"
    return f"<div class='{kind}'><div>{images}</div>{heard}<p>{caption}</p></div>"
