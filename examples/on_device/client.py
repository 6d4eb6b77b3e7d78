"""Adapt without PyTorch: `python client.py network.onnx batch.npy …` needs onnxruntime and numpy alone.

The file comes from `model.export(form="onnx", adapting=True, path="network.onnx")`. Each NPY file holds inputs as the
network takes them, (batch, …), in single precision; predicted classes are printed.
"""

import sys

import numpy as np
import onnxruntime


class Adapting:
    """Predicts batches one after the other, and follows them."""

    def __init__(self, path: str) -> None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # it warns of inputs that have a default
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.names = [output.name.removeprefix("next_") for output in self.session.get_outputs()[1:]]
        self.state: dict[str, np.ndarray] = {}  # empty: the state in the file

    def predict(self, inputs: np.ndarray) -> np.ndarray:
        """Return the logits of a batch."""
        logits, *state = self.session.run(None, {"inputs": inputs, **self.state})
        self.state = dict(zip(self.names, state, strict=True))
        return logits


if __name__ == "__main__":
    adapting = Adapting(sys.argv[1])
    for batch in sys.argv[2:]:
        print(*adapting.predict(np.load(batch)).argmax(1))
