"""Stream corrupted digits, or keywords, to a service and print what it predicts.

    holdfast serve digits_resnet --method tent --state state      # in one shell
    python examples/serve/stream.py                               # in another; then open http://127.0.0.1:8000/
    holdfast serve keywords_amaut --state state-audio --port 8001
    python examples/serve/stream.py --audio --url http://127.0.0.1:8001

Needs holdfast and httpx. Labels that the service wants are sent back, as an annotator would.
"""

from __future__ import annotations

import argparse
import io
import time
from collections.abc import Iterator

import httpx
import numpy as np

from holdfast.data import DATASETS
from holdfast.records import Batch
from holdfast.streams import STREAMS


def npy(values: np.ndarray) -> bytes:
    """Return an array as the content of an NPY file."""
    file = io.BytesIO()
    np.save(file, values, allow_pickle=False)
    return file.getvalue()


def corrupted(audio: bool, severity: float, size: int) -> Iterator[Batch]:
    """Yield batches of data whose corruption changes again and again."""
    data = DATASETS["keywords" if audio else "digits"](split="test")
    names = ["white_noise", "time_stretch"] if audio else ["gaussian_noise", "contrast", "defocus_blur"]
    stream = STREAMS["continual"](data, corruptions=names, severity=severity, seed=0)
    return stream.starting_at(0, batch_size=size)


def main() -> None:
    """Send one batch after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--tenant", default="north")
    parser.add_argument("--token", default="")
    parser.add_argument("--audio", action="store_true", help="send keywords instead of digits")
    parser.add_argument("--severity", type=float, default=4.0)
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--size", type=int, default=32, help="samples in a request")
    parser.add_argument("--pause", type=float, default=0.2, help="seconds between requests")
    given = parser.parse_args()
    headers = {"X-Tenant": given.tenant, "Content-Type": "application/x-npy"}
    token = {"Authorization": f"Bearer {given.token}"} if given.token else {}
    right = seen = 0
    with httpx.Client(base_url=given.url, headers=token, timeout=60) as client:
        for number, batch in zip(
            range(given.batches), corrupted(given.audio, given.severity, given.size), strict=False
        ):
            answer = client.post("/v1/predict", content=npy(batch.inputs.numpy()), headers=headers)
            answer.raise_for_status()
            prediction = answer.json()
            for name, label, wanted in zip(
                prediction["ids"], batch.labels.tolist(), prediction["wants_label"], strict=True
            ):
                if wanted:
                    client.post("/v1/feedback", json={"id": name, "label": label})
            right, seen = right + int((np.array(prediction["classes"]) == batch.labels).sum()), seen + len(batch)
            print(f"batch {number:3d}  {batch.domains[0]:20s} accuracy so far {100 * right / seen:.1f} %", flush=True)
            time.sleep(given.pause)


if __name__ == "__main__":
    main()
