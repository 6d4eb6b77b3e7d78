"""Connections to other systems: the Hugging Face Hub, MLflow and OpenTelemetry."""

from holdfast.connect.folder import read_folder, write_folder
from holdfast.connect.hub import from_hub, push_to_hub
from holdfast.connect.mlflow import MlflowLog, log_model
from holdfast.connect.otel import Telemetry

__all__ = ["MlflowLog", "Telemetry", "from_hub", "log_model", "push_to_hub", "read_folder", "write_folder"]
