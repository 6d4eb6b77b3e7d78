"""A scripted collapse: adaptation that goes wrong at a known time, for a recovery to notice."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["ScriptedCollapse"]


class ScriptedCollapse(BaseModel):
    """For a stretch of the stream the method, whichever it is, learns at a multiple of its learning rate.

    The updates are its own and nothing else is touched: real adaptation that goes wrong. After the stretch the rate is
    the old one, and the damage stays until something takes it back. A method that trains nothing is not affected.

    >>> script = ScriptedCollapse(from_sample=128, samples=64, lr_factor=50)
    >>> [script.scale_at(position) for position in (64, 128, 192)]
    [1.0, 50.0, 1.0]
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    from_sample: int = Field(ge=0)
    samples: int = Field(ge=1)
    lr_factor: float = Field(gt=1)

    def scale_at(self, position: int) -> float:
        """Return the multiple for a batch that begins at this position."""
        return self.lr_factor if self.from_sample <= position < self.from_sample + self.samples else 1.0
