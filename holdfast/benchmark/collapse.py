"""A scripted collapse: adaptation fails at a known time, so that a recovery can be tested."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from holdfast.options.ranges import Count, Whole


class ScriptedCollapse(BaseModel):
    """Multiply the learning rate of the method, whichever it is, on a part of the stream.

    The updates stay the method's own. Afterwards the learning rate is the old one again, and the damage stays until a
    recovery undoes it. A method that trains nothing is not affected.

    >>> script = ScriptedCollapse(from_sample=128, samples=64, lr_factor=50)
    >>> [script.scale_at(position) for position in (64, 128, 192)]
    [1.0, 50.0, 1.0]
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    from_sample: Whole
    samples: Count
    lr_factor: float = Field(gt=1)

    def scale_at(self, position: int) -> float:
        """Return the factor of the learning rate for a batch that begins at this position."""
        return self.lr_factor if self.from_sample <= position < self.from_sample + self.samples else 1.0
