"""The deployment files fit the schemas of Kubernetes and systemd, and name options that `holdfast serve` has.

Kubernetes' own types come from lightkube's models; of KServe's resource the fields that we use are checked, and the
rest of its predictor is a pod.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from holdfast.cli import app

SERVE = Path(__file__).parents[2] / "examples" / "serve"
UNIT = SERVE / "systemd" / "holdfast.service"
FILES = {name: SERVE / "kubernetes" / f"{name}.yaml" for name in ("deployment", "inference_service")}
pytestmark = pytest.mark.skipif(not SERVE.exists(), reason="the examples are not beside the tests")


def documents(name: str) -> dict[str, Any]:
    """Return the documents of a file by kind."""
    return {document["kind"]: document for document in yaml.safe_load_all(FILES[name].read_text())}


def missing(written: Any, known: Any, path: str = "") -> list[str]:
    """Return the paths of what is written and not known."""
    if isinstance(written, dict) and isinstance(known, dict):
        gone = [f"{path}.{key}" for key in written if key not in known]
        return gone + [
            one for key in known if key in written for one in missing(written[key], known[key], f"{path}.{key}")
        ]
    if isinstance(written, list) and isinstance(known, list) and len(written) == len(known):
        return [one for pair in zip(written, known, strict=True) for one in missing(*pair, path)]
    return [] if written == known else [path]


def check(document: Any, kind: Any) -> None:
    """Raise unless a document fits a type of Kubernetes: types, required fields, and no others."""
    msgspec = pytest.importorskip("msgspec")
    assert missing(document, msgspec.to_builtins(msgspec.convert(document, kind))) == []


def test_the_deployment_fits_the_schema_of_kubernetes() -> None:
    pytest.importorskip("lightkube")
    from lightkube.models import apps_v1, core_v1

    objects = documents("deployment")
    kinds = {
        "Deployment": apps_v1.Deployment,
        "Service": core_v1.Service,
        "PersistentVolumeClaim": core_v1.PersistentVolumeClaim,
    }
    assert set(objects) == set(kinds)
    for name, document in objects.items():
        check(document, kinds[name])
    pod = objects["Deployment"]["spec"]["template"]
    assert objects["Service"]["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert objects["Deployment"]["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert objects["Deployment"]["spec"]["strategy"]["type"] == "Recreate"
    check_pod(pod["spec"])
    assert objects["PersistentVolumeClaim"]["metadata"]["name"] == "holdfast-state"


@pytest.mark.parametrize("change", [{"image": 3}, {"imagePullPolice": "Always"}, {"ports": [{"port": 8000}]}])
def test_a_mistake_in_a_container_is_noticed(change: dict[str, Any]) -> None:
    msgspec = pytest.importorskip("msgspec")
    pytest.importorskip("lightkube")
    from lightkube.models import core_v1

    container = documents("deployment")["Deployment"]["spec"]["template"]["spec"]["containers"][0]
    check(container, core_v1.Container)
    with pytest.raises((AssertionError, msgspec.ValidationError)):
        check({**container, **change}, core_v1.Container)


def test_the_inference_service_is_a_pod_with_fields_of_kserve() -> None:
    pytest.importorskip("lightkube")
    from lightkube.models import apps_v1, core_v1, meta_v1

    (document,) = documents("inference_service").values()
    assert document["apiVersion"] == "serving.kserve.io/v1beta1"
    assert document["kind"] == "InferenceService"
    assert set(document) == {"apiVersion", "kind", "metadata", "spec"}
    check(document["metadata"], meta_v1.ObjectMeta)
    assert set(document["spec"]) == {"predictor"}
    predictor = document["spec"]["predictor"]
    fields = {"minReplicas": int, "maxReplicas": int, "timeout": int, "deploymentStrategy": apps_v1.DeploymentStrategy}
    for name, kind in fields.items():
        check(predictor[name], kind)
    pod = {name: value for name, value in predictor.items() if name not in fields}
    check(pod, core_v1.PodSpec)
    check_pod(pod)
    assert [container["name"] for container in pod["containers"]] == [
        "kserve-container"
    ]  # the name that KServe expects


def check_pod(pod: dict[str, Any]) -> None:
    """Raise unless mounts, ports and probes of a pod fit together, and its command has the options that it uses."""
    (container,) = pod["containers"]
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    for name, probe in container.items():
        if name.endswith("Probe"):
            assert ports.get(probe["httpGet"]["port"], probe["httpGet"]["port"]) in ports.values()
    options = parsed(container["command"] + container["args"])
    assert options["port"] in ports.values()
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {str(options["state"].parent), str(options["token_file"].parent)} <= mounts
    assert pod["terminationGracePeriodSeconds"] > 30  # uvicorn waits so long for requests under way


def parsed(command: list[str]) -> dict[str, Any]:
    """Return the options of a `holdfast serve` command line, or raise for one that there is not."""
    program, name, *arguments = command
    assert (Path(program).name, name) == ("holdfast", "serve")
    group = typer.main.get_command(app)
    with group.commands["serve"].make_context("serve", arguments) as context:  # type: ignore[attr-defined]
        return dict(context.params)


def test_the_probed_addresses_exist(client: Any) -> None:
    texts = [file.read_text() for file in FILES.values()]
    probed = {path for text in texts for path in re.findall(r"httpGet: \{path: ([^,]+),", text)}
    assert probed == {"/readyz", "/healthz", "/v2/health/ready", "/v2/health/live"}
    assert {path: client.get(path).status_code for path in probed} == dict.fromkeys(probed, 200)


def test_the_unit_starts_the_service_with_options_that_exist(tmp_path: Path) -> None:
    lines = dict(line.partition("=")[::2] for line in UNIT.read_text().splitlines() if line[:1].isalpha())
    options = parsed(lines["ExecStart"].split())
    assert str(options["state"]).startswith(f"/var/lib/{lines['StateDirectory']}/")
    assert int(lines["TimeoutStopSec"]) > 30
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace(lines["ExecStart"].split()[0], "/bin/true"))
    verified = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert verified.stderr == ""
    unit.write_text(unit.read_text().replace("TimeoutStopSec=45", "TimeoutStopSecs=45"))
    assert (
        "TimeoutStopSecs"
        in subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False).stderr
    )
