"""`holdfast serve`: serve an adapting classifier over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from holdfast.cli import completing
from holdfast.cli.options import CardFile, ModelArgument, parse_mapping
from holdfast.cli.printing import console
from holdfast.options.spec import Spec

if TYPE_CHECKING:
    from torch import Tensor

    from holdfast.models.classifier import Classifier


def serve(
    model: ModelArgument,
    method: Annotated[
        str, typer.Option(help="Adapt with this method; auto trains nothing.", autocompletion=completing.methods)
    ] = "auto",
    options: Annotated[str, typer.Option(help="Set options of the method, as YAML: '{lr: 0.0001}'.")] = "{}",
    guard: Annotated[bool, typer.Option(help="Guard the method; --no-guard serves it alone.")] = True,
    holdout: Annotated[
        str | None,
        typer.Option(help="Fit estimates to these held-out, labelled data: a name, or YAML {name: …, option: …}."),
    ] = None,
    card: CardFile = None,
    classes: Annotated[
        Path | None, typer.Option(help="Name classes as in this text file, a name on each line, in answers and page.")
    ] = None,
    clean_accuracy: Annotated[
        float | None, typer.Option(help="Fit estimates to this accuracy on clean data, 0 to 1, instead of --holdout.")
    ] = None,
    state: Annotated[Path | None, typer.Option(help="Keep states and the audit log in this folder.")] = None,
    head: Annotated[
        Path | None, typer.Option(help="Note the head of the audit log in this file, by default audit.head in --state.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Listen at this address; one that others reach needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Listen at this port; 0 chooses a free one.")] = 8000,
    token_file: Annotated[
        Path | None, typer.Option(help="Ask clients for the token in this file, or in HOLDFAST_TOKEN.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Collect up to this many samples of a tenant in a batch.")] = 64,
    wait_ms: Annotated[
        float, typer.Option(min=0, help="Wait this many milliseconds at most for a batch to fill.")
    ] = 10,
    budget: Annotated[float, typer.Option(help="Ask for the labels of this share of samples, 0 to 1.")] = 0.02,
    active: Annotated[int, typer.Option(min=1, help="Keep the states of this many tenants in memory.")] = 64,
    checkpoint_every: Annotated[int, typer.Option(min=1, help="Write a state every this many batches.")] = 16,
    max_tenants: Annotated[int, typer.Option(min=1, help="Refuse more tenants than this.")] = 1000,
    max_body_mb: Annotated[float, typer.Option(help="Refuse larger bodies, in MB.")] = 16,
    rate: Annotated[float, typer.Option(help="Refuse more requests per second from one tenant.")] = 1000,
    memory_format: Annotated[
        Literal["auto", "contiguous", "channels_last"],
        typer.Option(help="Lay out images so; auto measures which is faster at the start."),
    ] = "auto",
    store_inputs: Annotated[bool, typer.Option(help="Keep every batch in the state folder, for replay.")] = False,
    otel: Annotated[
        bool,
        typer.Option(help="Send traces and metrics to the OpenTelemetry collector of OTEL_EXPORTER_OTLP_ENDPOINT."),
    ] = False,
    engine: Annotated[
        Literal["local", "ray"], typer.Option(help="Run here, or on Ray Serve with several replicas.")
    ] = "local",
    replicas: Annotated[int, typer.Option(min=1, help="Divide tenants among this many replicas of Ray Serve.")] = 2,
) -> None:
    """Serve a model that adapts to the inputs of each tenant, with an audit log, metrics and a live page."""
    from holdfast.models.base import RUNS_CODE
    from holdfast.serve.gate import check_address, read_token
    from holdfast.serve.limits import Limits

    parsed, token = Spec.parse(model), read_token(token_file)
    check_address(host, token)
    if parsed.name.partition(":")[0] in RUNS_CODE:
        console.print(f"note: {parsed.name} runs Python code of its own with your rights", highlight=False)
        if parsed.name.startswith("file") and not {"mean", "std", "size"} & parsed.options.keys():
            console.print(
                "note: inputs are passed on as they come, images in [0, 1] and of the network's size; if it was "
                "trained on normalised images, serve '{name: \"" + parsed.name + "\", mean: […], std: […], size: 224}'",
                highlight=False,
                markup=False,
            )
    limits = Limits(body_bytes=int(max_body_mb * 1e6), requests_per_second=rate, tenants=max_tenants)
    building = {
        "model": parsed.to_text(),
        "method": method,
        "guarded": guard,
        "options": parse_mapping("--options", options),
        "holdout": holdout,
        "card": None if card is None else str(card.resolve()),
        "classes": None if classes is None else str(classes.resolve()),
        "budget": budget,
        "clean_accuracy": clean_accuracy,
        "active": active,
        "checkpoint_every": checkpoint_every,
        "batch": batch,
        "wait": wait_ms / 1000,
        "memory_format": memory_format,
        "store_inputs": store_inputs,
        "otel": otel,
    }

    def announce(address: str) -> None:
        typer.echo(f"serving {model} at {address}")

    if head is not None and (state is None or engine == "ray"):
        raise ValueError("--head needs --state and --engine local; on Ray each replica keeps its own head in --state")
    if engine == "ray":
        from holdfast.serve.on_ray import run_on_ray

        run_on_ray(
            building,
            folder=state,
            limits=limits,
            replicas=replicas,
            host=host,
            port=port,
            token=token,
            announce=announce,
        )
    else:
        from holdfast.serve.build import build_service
        from holdfast.serve.run import run

        service = build_service(building, folder=state, limits=limits, head=head)
        service.check_first(lambda inputs: _misscaled(service.tenants.model.source_network, inputs))
        if service.tenants.model.method.predicts == "after":
            typer.echo(f"{method} predicts after its update: a prediction takes as long as the whole step")
        run(service, host=host, port=port, token=token, announce=announce)
    where = f" states and audit log: {state}; next: holdfast audit {state}" if state else ""
    typer.echo(f"stopped.{where}")


def _misscaled(network: Classifier, inputs: Tensor) -> str | None:
    """Return what `holdfast doctor` says of the scale of inputs, unless it is fine."""
    from holdfast.diagnosis.data import scale_findings

    wrong = [finding for finding in scale_findings(network, inputs, None) if finding.status != "ok"]
    return f"the first inputs look wrong: {wrong[0].observed}; {wrong[0].remedy}" if wrong else None
