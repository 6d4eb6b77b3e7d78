"""Send a batch to a service by the Open Inference Protocol, with Triton's client: no change where you have one already.

pip install "tritonclient[http]"
holdfast serve digits_resnet --holdout '{name: digits, split: validation}'    # in one shell
python examples/serve/triton_client.py --model digits_resnet --tenant north   # in another
"""

from __future__ import annotations

import argparse

import numpy as np
import tritonclient.http as triton


def infer(client: triton.InferenceServerClient, model: str, batch: np.ndarray, tenant: str) -> triton.InferResult:
    """Predict a batch of one tenant; names and types are those that the service states."""
    (stated,) = client.get_model_metadata(model)["inputs"]
    tensor = triton.InferInput(stated["name"], list(batch.shape), stated["datatype"])
    tensor.set_data_from_numpy(batch.astype(triton.triton_to_np_dtype(stated["datatype"])), binary_data=True)
    wanted = [triton.InferRequestedOutput(name, binary_data=True) for name in ("logits", "classes")]
    return client.infer(model, [tensor], outputs=wanted, parameters={"tenant": tenant})


def main(arguments: list[str] | None = None) -> None:
    """Send a batch of noise and print the classes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--url", default="127.0.0.1:8000", help="host and port, without http://")
    parser.add_argument("--model", default="digits_resnet")
    parser.add_argument("--tenant", default="default")
    parser.add_argument("--size", type=int, default=8, help="samples in the batch")
    given = parser.parse_args(arguments)
    client = triton.InferenceServerClient(given.url)
    if not client.is_server_ready():
        raise SystemExit(f"nothing is ready at {given.url}")
    shape = client.get_model_metadata(given.model)["inputs"][0]["shape"][1:]
    batch = np.random.default_rng(0).random((given.size, *shape), dtype=np.float32)
    result = infer(client, given.model, batch, given.tenant)
    print("classes", result.as_numpy("classes").tolist())
    client.close()


if __name__ == "__main__":
    main()
