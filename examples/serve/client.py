"""Send images or audio files to a service and print what it predicts; needs nothing but Python.

    holdfast serve digits_resnet --holdout '{name: digits, split: validation}'    # in one shell
    python examples/serve/client.py seven.png three.png --tenant north            # in another

Copy the class into a program of your own. A label that the service wants is worth sending back: `client.feedback`.
"""

from __future__ import annotations

import argparse
import json
import mimetypes
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any


class Client:
    """One tenant of a service."""

    def __init__(self, url: str, tenant: str = "default", token: str = "", timeout: float = 60.0) -> None:
        self.url, self.timeout = url.rstrip("/"), timeout
        self.headers = {"X-Tenant": tenant, **({"Authorization": f"Bearer {token}"} if token else {})}

    def predict(self, content: bytes, kind: str) -> dict[str, Any]:
        """Predict one file; `kind` is its media type, such as image/png or audio/wav."""
        return self._send("/v1/predict", content, kind)

    def predict_values(self, inputs: list[Any]) -> dict[str, Any]:
        """Predict a batch of nested lists of numbers, as the network takes them."""
        return self._send("/v1/predict", json.dumps({"inputs": inputs}).encode())

    def feedback(self, prediction_id: str, label: int | None) -> bool:
        """Send the true class of a prediction, and return whether it counts."""
        body = json.dumps({"id": prediction_id, "label": label}).encode()
        return bool(self._send("/v1/feedback", body)["counts"])

    def status(self) -> dict[str, Any]:
        """Return the state of the service and its tenants."""
        return self._send("/v1/status")

    def _send(self, path: str, body: bytes | None = None, kind: str = "application/json") -> dict[str, Any]:
        headers = {**self.headers, **({} if body is None else {"Content-Type": kind})}
        request = urllib.request.Request(self.url + path, body, headers)
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as answer:
                content: dict[str, Any] = json.load(answer)
                return content
        except urllib.error.HTTPError as error:  # the service says in one sentence what is wrong
            raise RuntimeError(f"{error.code}: {json.load(error)['error']}") from error


def main(arguments: list[str] | None = None) -> None:
    """Predict the files of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+", type=Path, help="PNG, JPEG, WAV or FLAC")
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--tenant", default="default")
    parser.add_argument("--token", default="")
    given = parser.parse_args(arguments)
    client = Client(given.url, given.tenant, given.token)
    for path in given.files:
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        prediction = client.predict(
            path.read_bytes(), {"audio/x-wav": "audio/wav", "audio/x-flac": "audio/flac"}.get(kind, kind)
        )
        wanted = "  please label it" if prediction["wants_label"][0] else ""
        sure = f"{100 * prediction['confidences'][0]:.0f} %"
        print(f"{path}: class {prediction['classes'][0]} ({sure})  {prediction['ids'][0]}{wanted}")


if __name__ == "__main__":
    main()
