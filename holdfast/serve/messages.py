"""The messages of the service as models: they check what clients send, and make the OpenAPI document."""

from typing import Any, TypeVar

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
    model_validator,
)

from holdfast.serve.limits import RefusedError

Message = TypeVar("Message", bound=BaseModel)


class Failure(BaseModel):
    """Why a request was refused."""

    error: str


class Prediction(BaseModel):
    """The predictions for one request, in the order of its samples."""

    tenant: str
    batch: int = Field(description="Batches of this tenant before.")
    position: int = Field(description="Index of the first sample in that batch.")
    place: int = Field(description="The same as `position`, until 0.4.", deprecated=True)
    ids: list[str] = Field(description="Send these with labels to /v1/feedback.")
    classes: list[int]
    names: list[str] | None = Field(None, description="Of the classes, where they are known.")
    confidences: list[float]
    wants_label: list[bool]
    predicts: str = Field(description="Whether predicted before or after the update on the same batch.")
    logits: list[list[float]] | None = Field(None, description="(samples, classes), with ?logits=true.")


class Label(BaseModel):
    """Send {"id": "…", "label": a class, or null}, or {"id": "…", "correct": true or false}."""

    id: StrictStr = Field(validation_alias=AliasChoices("id", "prediction_id"))
    label: StrictInt | None = Field(None, description="The true class, or null if it cannot be had.")
    correct: StrictBool | None = Field(None, description="Whether the predicted class is right, instead of a label.")

    @model_validator(mode="after")
    def _one_of_both(self) -> "Label":
        given = {"label", "correct"} & self.model_fields_set
        if len(given) != 1 or (given == {"correct"} and self.correct is None):
            raise ValueError("either label or correct")
        return self


class Whose(BaseModel):
    """Send {"tenant": "…"}, or the header X-Tenant."""

    tenant: StrictStr | None = None


class Counted(BaseModel):
    """Whether a label counts in the bounds of its tenant: it was asked for, and is the first."""

    counts: bool


class Status(BaseModel):
    """What the service does."""

    model_config = ConfigDict(extra="allow")

    model: dict[str, Any]
    uptime_seconds: float
    ready: bool
    learning_stopped: str | None = Field(description="Why nothing is adapted, e.g. a full disk.")
    queue: int = Field(description="Samples that wait for their prediction.")
    audit: dict[str, Any] | None
    tenants: dict[str, dict[str, Any]]


class Health(BaseModel):
    """The process runs."""

    status: str


class Readiness(BaseModel):
    """Whether predictions are served."""

    model_config = ConfigDict(extra="allow")

    ready: bool


def checked(message: type[Message], said: dict[str, Any]) -> Message:
    """Return what a client said as a message, or refuse it with the first sentence of its description."""
    try:
        return message.model_validate(said)
    except ValidationError as error:
        raise RefusedError(422, str(message.__doc__)) from error
