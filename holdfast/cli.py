"""The command line: parsing and printing, one call each."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer
import yaml
from rich.console import Console
from rich.live import Live
from rich.table import Table

from holdfast.registry import UnknownNameError, nearest
from holdfast.spec import Spec

if TYPE_CHECKING:
    from PIL import Image

    from holdfast.audio import Waveform
    from holdfast.streams import Calibration

__all__ = ["app", "main"]

app = typer.Typer(
    help="Test-time adaptation that is safe enough to deploy and honest enough to publish.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
console = Console()

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Out = Annotated[Path, typer.Option("--out", help="Folder of runs; what is finished there is not run again.")]
Scale = Annotated[str | None, typer.Option(help="One of the suite's sizes, e.g. smoke or paper.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="Override a key of the suite: --set streams.0.severity=3")
]
Executor = Annotated[str, typer.Option(help="Where jobs are run: serial or processes.")]
Workers = Annotated[int, typer.Option(min=1, help="How many at a time, with --executor processes.")]
MetricName = Annotated[str, typer.Option(help="What tables show: error or accuracy.")]

REFERENCE_NETWORKS = {"digits": "digits_resnet", "keywords": "keywords_amaut"}


def main() -> None:
    """Run the command line; what a user can mend is told in one sentence, without a traceback."""
    try:
        app()
    except (ValueError, RuntimeError, OSError, ImportError) as error:
        Console(stderr=True).print(f"holdfast: {error}", style="red", markup=False, highlight=False)
        sys.exit(2)


@app.command()
def demo(out: Out = Path("runs"), executor: Executor = "processes", workers: Workers = 2) -> None:
    """Compare methods on continual streams of the embedded digits and the embedded keywords, and write one report."""
    from holdfast.data import Keywords

    _bench("demo", {}, out, executor, workers)
    try:
        Keywords()  # spoken here, at their first use, before several workers ask for them
    except ImportError as error:
        console.print(f"No sounds this time: {error}", markup=False)
    else:
        _bench("demo-audio", {}, out / "demo", executor, workers)
    _report(out / "demo", None, "error")


@app.command()
def bench(
    suite: Annotated[str, typer.Argument(help="A suite by name (holdfast list suites) or a YAML file.")],
    out: Out = Path("runs"),
    executor: Executor = "serial",
    workers: Workers = 2,
    scale: Scale = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Run a suite: finished runs are kept, unfinished ones go on where they were stopped."""
    folders = _bench(suite, _parse_settings(settings or []), out, executor, workers, scale)
    if as_json:
        typer.echo(json.dumps([str(folder) for folder in folders]))


@app.command()
def report(
    runs: Annotated[Path, typer.Argument(help="A folder of runs.")],
    out: Annotated[
        Path | None, typer.Option(help="The HTML file to write; report.html in the folder by default.")
    ] = None,
    metric: MetricName = "error",
) -> None:
    """Write one self-contained HTML page for a folder of runs, with CSV, Markdown and LaTeX beside it."""
    _report(runs, out, metric)


@app.command()
def compare(
    a: Annotated[Path, typer.Argument(help="A run, or a folder of runs.")],
    b: Annotated[Path, typer.Argument(help="Another one.")],
    allow: Annotated[list[str] | None, typer.Option(help="A protocol field that may differ, e.g. recovery.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare runs pair by pair; unequal protocols are refused, and the field that differs is named."""
    from holdfast.report import compare as compare_runs

    comparison = compare_runs(a, b, allow=allow or ())
    typer.echo(json.dumps(comparison.to_dict()) if as_json else comparison.to_markdown())


@app.command()
def conformance(
    golden: Annotated[Path, typer.Option(help="Folder of recorded traces.")] = Path("tests/conformance/golden"),
    only: Annotated[list[str] | None, typer.Option(help="A method or recipe; all of them when left out.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare every method with recorded outputs of its official implementation."""
    from holdfast.conformance import judge_all

    table = Table("method", "trace", "stream", "reference", "max |Δ|", "allowed", "verdict", box=None, pad_edge=False)
    verdicts = []
    with Live(table, console=console) if not as_json else nullcontext():
        for verdict in judge_all(golden, only):
            verdicts.append(verdict)
            table.add_row(*verdict.in_words())
    if as_json:
        typer.echo(json.dumps([verdict.to_dict() for verdict in verdicts]))
    failed = [verdict for verdict in verdicts if not verdict.passed]
    if failed:
        notes = "; ".join(f"{verdict.case.trace} ({verdict.stream}): {verdict.note}" for verdict in failed)
        raise RuntimeError(f"{len(failed)} of {len(verdicts)} comparisons failed: {notes}")


@app.command("list")
def list_(
    what: Annotated[
        str, typer.Argument(help="methods, recoveries, estimators, corruptions, streams, suites or models.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """List what there is: name, one line, citation."""
    from holdfast.catalogue import catalogue

    rooms = catalogue()
    if what and what not in rooms:
        raise UnknownNameError(f"unknown list {what!r}; {nearest(what, rooms)}")
    chosen = {what: rooms[what]} if what else rooms
    if as_json:
        plain = {room: [vars(entry) for entry in entries] for room, entries in chosen.items()}
        typer.echo(json.dumps(plain[what] if what else plain))
        return
    for room, entries in chosen.items():
        table = Table(title=room, title_justify="left", box=None, pad_edge=False)
        for heading in ("name", "what it is", "citation"):
            table.add_column(heading, overflow="fold")
        for entry in entries:
            table.add_row(entry.name, entry.summary, entry.citation)
        console.print(table, "")


@app.command()
def train(
    data: Annotated[
        str, typer.Argument(help="A data set by name, or YAML: {name: sc2, folder: …}; digits and keywords are here.")
    ] = "digits",
    model: Annotated[
        str | None,
        typer.Option(
            help="A network by name, or YAML: {name: amaut, version: sc2}; that of the embedded data when left out."
        ),
    ] = None,
    procedure: Annotated[
        str | None,
        typer.Option(help="images, sounds, or as AMAuT was published: amaut-sc2, -rs, -vs, -cochlscene, -us8."),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Number of epochs; the procedure decides by default.")
    ] = None,
    seed: int = 0,
    noise: Annotated[
        Path | None, typer.Option(help="Folder of the DEMAND corpus; embedded noise when left out.")
    ] = None,
    start: Annotated[Path | None, typer.Option(help="Weights to start from, a safetensors file.")] = None,
    test: Annotated[
        str | None,
        typer.Option(help="What to measure the accuracy on, a name or YAML, for data without splits of its own."),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, …")] = "cpu",
    out: Annotated[Path, typer.Option(help="Folder for the weights.")] = Path("weights"),
    as_json: AsJson = False,
) -> None:
    """Train a network: a reference network again, as its shipped weights were, or AMAuT by its published recipes."""
    from rich.progress import Progress

    from holdfast.data import DATASETS
    from holdfast.training import save_weights
    from holdfast.training import train as train_model

    samples = Spec.parse(data)
    model = model or REFERENCE_NETWORKS.get(samples.name)
    if model is None:
        known = DATASETS.name_of(DATASETS[samples.name])  # a name that is not is told first
        raise ValueError(f"no network comes with {known}; name one: --model '{{name: amaut, version: sc2}}'")
    network = Spec.parse(model)
    with Progress(console=Console(stderr=True)) as bars:
        task = bars.add_task(f"training {network.name}", total=epochs)

        def tell(done: int, total: int, loss: float) -> None:
            bars.update(task, completed=done, total=total, description=f"training {network.name}, loss {loss:.3f}")

        result = train_model(
            network,
            samples,
            procedure=procedure,
            epochs=epochs,
            seed=seed,
            noise=noise,
            start=start,
            test=test,
            device=device,
            progress=tell,
        )
    path = save_weights(result, out)
    if as_json:
        typer.echo(json.dumps({"weights": str(path), "accuracy": dict(result.accuracy)}))
    else:
        shares = (f"{split} {100 * share:.2f} %" for split, share in result.accuracy.items())
        typer.echo(f"accuracy: {', '.join(shares)}")
        typer.echo(f"weights: {path}")


@app.command()
def calibrate(
    model: Annotated[str, typer.Option(help="A model by name, or YAML: {name: …, option: …}.")] = "digits_resnet",
    data: Annotated[
        str, typer.Option(help="A data set by name, or YAML: {name: digits, split: validation}.")
    ] = "digits",
    difficulty: Annotated[str, typer.Option(help="easy, medium or hard, as CCC means it for this model.")] = "medium",
    target: Annotated[
        float | None, typer.Option(help="An accuracy in percent to hold instead of a difficulty.")
    ] = None,
    pairs: Annotated[int, typer.Option(min=1, help="How many transitions.")] = 3,
    pictures: Annotated[int, typer.Option(min=2, help="The most pictures to measure on.")] = 500,
    family: Annotated[str, typer.Option(help="Severities for 32, 64 or 224 px.")] = "224",
    seed: Annotated[int, typer.Option(help="Draws the pairs; 43, 44 and 45 are the official ones.")] = 43,
    out: Annotated[Path, typer.Option(help="Folder for calibration.json and a picture of each transition.")] = Path(
        "calibration"
    ),
    as_json: AsJson = False,
) -> None:
    """Find a walk of changing corruptions (CCC) on which a model's accuracy stays near a target."""
    import numpy as np

    from holdfast.data import DATASETS
    from holdfast.models import MODELS
    from holdfast.streams import walk_strip

    images = Spec.parse(data).build(DATASETS)
    calibration = _calibrate(
        Spec.parse(model).build(MODELS),
        images,
        difficulty=difficulty,
        target_percent=target,
        pairs=pairs,
        pictures=pictures,
        family=family,
        seed=seed,
    )
    path = calibration.save(out / "calibration.json")
    (picture,) = images.inputs(np.zeros(1, np.int64))
    for number in range(len(calibration.transitions)):
        walk_strip(calibration, picture, transition=number).save(out / f"transition_{number}.png")
    if as_json:
        typer.echo(calibration.to_json())
        return
    table = Table("transition", "steps", "accuracy %", "pictures", "measured", box=None, pad_edge=False)
    for entry in calibration.transitions:
        accuracy = f"{entry.mean_percent:.1f} ± {entry.margin_percent:.1f}"
        name = f"{entry.first} → {entry.second}"
        table.add_row(name, str(len(entry.cells)), accuracy, str(entry.pictures), f"{len(entry.measured)} of 441")
    console.print(f"target {calibration.target_percent:.1f} %, clean {calibration.clean_percent:.1f} %", table)
    for name, note in calibration.left_out.items():
        console.print(f"left out: {name} {note}")
    typer.echo(path)


@app.command()
def recommend(
    model: Annotated[str, typer.Option(help="A model by name, or YAML: {name: …, option: …}.")] = "digits_resnet",
    data: Annotated[
        str, typer.Option(help="Your validation data, by name or as YAML: {name: digits, split: validation}.")
    ] = "{name: digits, split: validation}",
    scenario: Annotated[
        str, typer.Option(help="What the stream will be like: phrases such as 'correlated classes, few domains'.")
    ] = "",
    class_stay: Annotated[float | None, typer.Option(help="Probability that a class is followed by itself.")] = None,
    class_imbalance: Annotated[float | None, typer.Option(help="The most frequent class over the rarest.")] = None,
    domain_stay: Annotated[float | None, typer.Option(help="Probability that a domain is followed by itself.")] = None,
    batch_size: Annotated[int | None, typer.Option(min=1)] = None,
    max_time: Annotated[float | None, typer.Option(help="What a step may cost, as a multiple of not adapting.")] = None,
    severity: Annotated[float, typer.Option(min=0, max=5)] = 3,
    family: Annotated[str | None, typer.Option(help="Severities for 32, 64 or 224 px; by size when left out.")] = None,
    samples: Annotated[int, typer.Option(min=1, help="The length of the stream.")] = 2000,
    seeds: Annotated[int, typer.Option(min=1)] = 3,
    out: Out = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """Try methods on your own model and data under the stream that you expect, and say which to use, if any."""
    from holdfast.benchmark.live import LiveProgress
    from holdfast.recommend import CANDIDATES, scenario_of
    from holdfast.recommend import recommend as rank

    known = {"class_stay": class_stay, "class_imbalance": class_imbalance, "domain_stay": domain_stay}
    with LiveProgress(len(CANDIDATES) * seeds) as live:
        found = rank(
            model,
            data,
            scenario_of(scenario, **known, batch_size=batch_size),
            out=out,
            severity=severity,
            family=family,
            samples=samples,
            seeds=seeds,
            max_time=math.inf if max_time is None else max_time,
            progress=live,
        )
    if as_json:
        typer.echo(json.dumps(found.to_dict()))
        return
    table = Table("method", "accuracy %", "over not adapting", "95 % interval", "time ×", box=None, pad_edge=False)
    for choice in found.choices:
        interval = f"{choice.low:+.1f} … {choice.high:+.1f}"
        cost = f"{choice.time:.1f}" if choice.affordable else f"{choice.time:.1f}, too dear"
        table.add_row(choice.name, f"{choice.accuracy:.1f}", f"{choice.gain:+.1f}", interval, cost)
    console.print(table)
    for name, reason in found.unfit.items():
        console.print(f"does not fit: {name} ({reason})")
    typer.echo(found.verdict)


@app.command()
def replay(
    target: Annotated[str, typer.Argument(help="The folder of a run, or a suite by name or as a YAML file.")],
    recoveries: Annotated[
        list[str] | None,
        typer.Option("--recovery", "-r", help="A name, or YAML: {name: …, option: …}; all of them when left out."),
    ] = None,
    job: Annotated[str, typer.Option(help="Which job of a suite: how its name begins, e.g. tent.")] = "",
    scale: Scale = None,
    out: Out = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """Run a recorded stream again, for the same model, method and seed, through several recoveries."""
    from holdfast.benchmark.live import LiveProgress
    from holdfast.recovery import RECOVERIES
    from holdfast.replay import replay as replay_run

    recoveries = recoveries or RECOVERIES.names()
    with LiveProgress(1 + len(recoveries)) as live:
        found = replay_run(target, recoveries, out=out, job=job, scale=scale, progress=live)
    if as_json:
        typer.echo(json.dumps([one.to_dict() for one in found]))
        return
    table = Table("recovery", "accuracy %", "last tenth %", "× forward", "resets", "at batch", box=None, pad_edge=False)
    for one in found:
        shares = f"{one.accuracy:.1f}", f"{one.last_tenth:.1f}", f"{one.passes:.2f}"
        places = [str(reset.batch) for reset in one.resets]
        table.add_row(
            one.recovery, *shares, str(len(places)), ", ".join(places[:8]) + (" …" if len(places) > 8 else "")
        )
    console.print(table)
    for one in found:
        if one.resets:
            console.print(f"{one.recovery}, batch {one.resets[0].batch}: {one.resets[0].reason}", highlight=False)
    typer.echo(f"runs: {out / 'replay'} (holdfast report makes a page of them)")


@app.command()
def corrupt(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="Images or sounds, files or folders; an embedded digit or word when left out."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--corruption", "-c", help="One corruption; all of them for a sheet.")
    ] = None,
    severity: Annotated[float, typer.Option("--severity", "-s", help="0 (untouched) to 5.")] = 5.0,
    sheet: Annotated[
        bool, typer.Option("--sheet", help="Draw one picture of corruptions × severities instead.")
    ] = False,
    family: Annotated[
        str | None, typer.Option(help="Parameters for 32, 64 or 224 px; by the image's size when left out.")
    ] = None,
    sample_rate: Annotated[
        int | None, typer.Option(min=1, help="Of the copies of sounds; their own when left out.")
    ] = None,
    audio_format: Annotated[
        str | None, typer.Option("--format", help="wav or flac; as the sound was when left out.")
    ] = None,
    walk: Annotated[
        str | None,
        typer.Option(help="Animate a walk: ccc-easy, ccc-medium, ccc-hard, a run of CCC, or a calibration file."),
    ] = None,
    seed: int = 0,
    workers: Annotated[int, typer.Option(min=1, help="Processes; any number of them writes the same files.")] = 1,
    out: Annotated[
        Path, typer.Option(help="Folder for corrupted copies, PNG file of a sheet, GIF or PNG file of a walk.")
    ] = Path("corrupted"),
) -> None:
    """Apply a corruption to images or sounds, draw a contact sheet of corruptions and severities, or animate a walk.

    Copies that are in the output folder already, by its manifest, are not made again.
    """
    from holdfast.corruptions import corrupt_files

    if sheet or walk:
        path = out if out.suffix else out.with_suffix(".gif" if walk else ".png")
        path.parent.mkdir(parents=True, exist_ok=True)
        if walk:
            _draw_walk(walk, paths, seed, path)
        else:
            _draw_sheet(paths, name, family, seed, path)
        typer.echo(path)
        return
    if not paths or name is None:
        raise ValueError("name images or sounds and --corruption, or ask for a picture of all corruptions with --sheet")
    if audio_format not in (None, "flac", "wav"):
        raise UnknownNameError(f"unknown format {audio_format!r}; choose wav or flac")
    options: Any = {"sample_rate": sample_rate, "audio_format": audio_format, "workers": workers}
    for path in corrupt_files(paths, name, severity, out, seed=seed, family=family, **options):
        typer.echo(path)


def _draw_sheet(paths: list[Path] | None, name: str | None, family: str | None, seed: int, path: Path) -> None:
    from holdfast.corruptions import CORRUPTIONS, audio_sheet, contact_sheet
    from holdfast.corruptions.listing import kind_of

    kind = (kind_of(paths[0]) if paths else None) or (CORRUPTIONS[name].kind if name else "image")
    names = [name] if name else CORRUPTIONS.names(kind)
    if kind == "audio":
        waveform, sample_rate = _sound(paths)
        picture = audio_sheet(waveform, names, range(6), seed, sample_rate=sample_rate)
    else:
        picture = contact_sheet(_picture(paths), names, (1, 2, 3, 4, 5), seed, family)
    picture.save(path)


def _draw_walk(walk: str, paths: list[Path] | None, seed: int, path: Path) -> None:
    from holdfast.streams import walk_strip, write_walk_gif

    image, calibration = _picture(paths), _walk_named(walk)
    if path.suffix == ".gif":
        write_walk_gif(path, calibration, image, seed=seed)
    else:
        walk_strip(calibration, image, seed=seed).save(path)


def _picture(paths: list[Path] | None) -> Image.Image:
    from PIL import Image

    from holdfast.data import Digits

    with Image.open(paths[0]) if paths else Image.fromarray(Digits().images[0]) as picture:
        copied: Image.Image = picture.copy()
    return copied


def _sound(paths: list[Path] | None) -> tuple[Waveform, int]:
    from holdfast.audio import read_audio
    from holdfast.audio.decoding import open_audio
    from holdfast.data import Keywords

    if paths:
        return read_audio(paths[0]), open_audio(paths[0]).sample_rate
    data = Keywords()
    return data.waveforms[0], data.input_spec.sample_rate or 0


def _bench(
    name: str, overrides: Mapping[str, Any], out: Path, executor: str, workers: int, scale: str | None = None
) -> list[Path]:
    from holdfast.benchmark import bench as run_suite
    from holdfast.benchmark import load_suite
    from holdfast.benchmark.live import LiveProgress

    jobs = load_suite(name, overrides, scale=scale).jobs()
    with LiveProgress(len(jobs)) as live:
        outcomes = run_suite(jobs, out, executor=executor, workers=workers, progress=live)
    failed = [f"{outcome.job.name}: {outcome.error}" for outcome in outcomes if outcome.error]
    if failed:
        raise RuntimeError(f"{len(failed)} of {len(outcomes)} runs failed, the others are kept; " + "; ".join(failed))
    return [outcome.folder for outcome in outcomes if outcome.folder]


def _walk_named(name: str) -> Calibration:
    """Return a calibration from its file, or one of a CCC setting for the embedded digits, quick rather than exact."""
    from holdfast.data import Digits
    from holdfast.models import digits_resnet
    from holdfast.streams import Calibration, ccc_setting

    if name.endswith(".json"):
        return Calibration.load(name)
    setting = ccc_setting(name)
    options = {"difficulty": setting["difficulty"], "seed": setting["seed"], "pictures": 100}
    return _calibrate(digits_resnet(), Digits("validation"), **options)


def _calibrate(model: Any, data: Any, **options: Any) -> Calibration:
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bars

    from holdfast.calibration import Progress
    from holdfast.calibration import calibrate as calibrate_model

    columns = TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn()
    with Bars(*columns, TextColumn("{task.fields[saved]}"), console=Console(stderr=True)) as bars:
        task = bars.add_task("calibrating", total=None, saved="")

        def tell(progress: Progress) -> None:
            bars.update(
                task,
                completed=progress.done,
                total=progress.done + progress.left,
                description=f"calibrating {progress.pair or 'the pool'}",
                saved=f"{progress.saved} saved by sharing",
            )

        return calibrate_model(model, data, progress=tell, **options)


def _report(runs: Path, out: Path | None, metric: str) -> None:
    from holdfast import report as reports
    from holdfast.report import Metric

    if metric not in get_args(Metric):
        raise UnknownNameError(f"unknown metric {metric!r}; {nearest(metric, get_args(Metric))}")
    shown = cast(Metric, metric)
    page = reports.write_report(runs, out, metric=shown)
    tables = reports.make_tables(reports.read_runs(runs), shown)
    for table in tables:
        typer.echo(reports.to_markdown(table))
        for made in filter(None, (reports.gain_table(table), reports.error_table(table))):
            typer.echo(reports.words_to_markdown(made))
    for arena in reports.arena_tables(tables):
        typer.echo(reports.words_to_markdown(arena))
    typer.echo(f"report: {page.resolve()}")


def _parse_settings(settings: list[str]) -> dict[str, Any]:
    parsed = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise ValueError(f"--set {setting}: write key=value, e.g. --set seeds=[0,1,2]")
        parsed[key] = yaml.safe_load(value)
    return parsed
