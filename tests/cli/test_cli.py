"""The command line: every command on small but real work."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from PIL import Image
from rich.console import Console
from scipy.io import wavfile
from typer.testing import CliRunner

import holdfast
from holdfast.benchmark import Progress
from holdfast.benchmark.live import LiveProgress
from holdfast.benchmark.suite import parse_suite
from holdfast.cli import app, main
from holdfast.cli.commands import COMMANDS
from holdfast.cli.options import parse_settings
from holdfast.cli.printing import fitted
from holdfast.models import MODELS, weights_digest

VALIDATION = "{name: digits, split: validation}"
SMALL = ["--set", "streams.0.samples_per_domain=32", "--set", "streams.0.corruptions=[contrast]", "--set", "seeds=[0]"]


def invoke(*words: str) -> str:
    result = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    monkeypatch.setattr("sys.argv", ["holdfast", *words])
    monkeypatch.setenv("COLUMNS", "400")
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert "Traceback" not in error
    return " ".join(error.split())


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs")
    folders = json.loads(invoke("bench", "demo", "--out", str(out), "--json", *SMALL))
    assert len(folders) == 5
    return out


def test_bench_ends_with_where_the_runs_are_and_the_next_command(runs: Path) -> None:
    *_, where, following = invoke("bench", "demo", "--out", str(runs), *SMALL).splitlines()
    assert where == f"runs: {runs / 'demo'} (5 finished)"
    assert following == f"next: holdfast report {runs / 'demo'}"


def test_every_command_has_a_file_of_its_own_and_explains_every_option() -> None:
    group: Any = typer.main.get_command(app)
    for name, command in group.commands.items():
        assert command.callback.__module__ == f"holdfast.cli.{name}"
        assert command.help
        for parameter in command.params:
            assert getattr(parameter, "help", None), f"{name} {parameter.name} has no help"


def test_importing_the_command_line_does_not_import_torch() -> None:
    code = "import sys, holdfast.cli; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.slow
def test_importing_the_benchmark_leaves_slow_parts_of_scipy_out() -> None:
    code = (
        "import sys, holdfast.cli, holdfast.benchmark; sys.exit(bool({'scipy.signal', 'scipy.stats'} & {*sys.modules}))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_report_writes_a_page_and_prints_the_table(runs: Path) -> None:
    printed = invoke("report", str(runs), "--metric", "accuracy")
    page = Path(printed.strip().splitlines()[-1].removeprefix("report: "))
    assert page.is_file()
    assert "rdumb" in printed
    assert "Accuracy" in printed
    assert {path.suffix for path in page.parent.iterdir()} >= {".html", ".csv", ".md", ".tex"}


def test_compare_names_the_field_that_differs(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tent, rdumb = (str(next(runs.glob(f"*/{name}-*"))) for name in ("tent", "rdumb"))
    assert "recovery" in fails(monkeypatch, capsys, "compare", tent, rdumb)
    compared = json.loads(invoke("compare", tent, rdumb, "--allow", "recovery", "--json"))
    assert len(compared["pairs"]) == 1
    assert "| tent " in invoke("compare", tent, tent)


def test_list_prints_name_line_and_citation() -> None:
    assert "Wang et al., ICLR 2021" in invoke("list", "methods")
    rooms = json.loads(invoke("list", "--json"))
    for room, entries in rooms.items():
        assert entries, f"{room} is empty"
        assert all(entry["name"] and entry["summary"] for entry in entries), room


@pytest.mark.slow
def test_train_writes_weights_and_prints_the_accuracy(tmp_path: Path) -> None:
    words = ["train", "digits", "--model", "digits_resnet", "--epochs", "1", "--out", str(tmp_path), "--json"]
    printed = json.loads(invoke(*words))
    assert Path(printed["weights"]).is_file()
    assert set(printed["accuracy"]) == {"train", "validation", "test"}


def test_train_takes_custom_audio_and_published_procedures(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for number in range(6):
        file = tmp_path / "data" / f"class{number % 2}" / f"{number}.wav"
        file.parent.mkdir(parents=True, exist_ok=True)
        wavfile.write(file, 16_000, np.int16(rng.integers(-9000, 9000, 900 + 400 * number)))
    data = f"{{name: sound_folder, folder: {tmp_path / 'data'}, seconds: 0.1}}"
    model = "{name: imported, target: 'holdfast.models.tiny:tiny_amaut', arguments: {num_classes: 2}}"
    words = [
        "train",
        data,
        "--model",
        model,
        "--procedure",
        "amaut-rs",
        "--epochs",
        "1",
        "--out",
        str(tmp_path),
        "--json",
    ]
    assert json.loads(invoke(*words))["accuracy"].keys() == {"train"}
    facts = json.loads((tmp_path / "imported.json").read_text())
    assert "--procedure amaut-rs --epochs 1 --seed 0" in facts["command"]


def test_the_demo_skips_audio_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    done: list[str] = []
    monkeypatch.setattr(metadata, "version", missing)
    monkeypatch.setattr("holdfast.cli.demo.run_suite", lambda name, *_, **__: done.append(name))
    monkeypatch.setattr("holdfast.cli.demo.print_story", lambda folder: done.append(folder.name))
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path))
    assert 'pip install "holdfast[audio]"' in " ".join(invoke("demo", "--out", str(tmp_path)).split())
    assert done == ["demo-rescue", "demo"]


def test_corrupt_takes_audio_files_and_draws_spectrograms(tmp_path: Path) -> None:
    file = tmp_path / "in" / "noise.wav"
    file.parent.mkdir()
    wavfile.write(file, 8_000, np.int16(np.random.default_rng(0).integers(-9000, 9000, 4_000)))
    written = invoke("corrupt", str(file), "-c", "psh", "-s", "2", "--format", "flac", "--out", str(tmp_path / "out"))
    assert Path(written.strip()).name == "noise.flac"
    sheet = invoke("corrupt", str(file), "--sheet", "-c", "white_noise", "--out", str(tmp_path / "sheet"))
    with Image.open(sheet.strip()) as picture:
        assert picture.width > 6 * 200


@pytest.mark.slow
def test_corrupt_writes_files_and_a_sheet(tmp_path: Path) -> None:
    image = tmp_path / "in" / "a.png"
    image.parent.mkdir()
    Image.fromarray(np.full((32, 32, 3), 200, np.uint8)).save(image)
    written = invoke("corrupt", str(image), "-c", "gaussian_noise", "-s", "3", "--out", str(tmp_path / "out"))
    with Image.open(written.strip()) as corrupted:
        assert np.asarray(corrupted).std() > 0
    sheet = invoke("corrupt", "--sheet", "--out", str(tmp_path / "sheet"))
    with Image.open(sheet.strip()) as picture:
        assert picture.height > 1000


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["bench", "dmeo"], "did you mean 'demo'"),
        (["list", "method"], "did you mean 'methods'"),
        (["report", "nowhere"], "no runs in nowhere"),
        (["report", "nowhere", "--metric", "errors"], "did you mean 'error'"),
        (["bench", "demo", "--executor", "process"], "did you mean 'processes'"),
        (["bench", "demo", "--set", "seeds"], "write key=value"),
        (["bench", "demo", "--set", "recipes.0=tnet"], "did you mean 'tent'"),
        (["bench", "demo", "--set", "seeds=[0"], "is not YAML"),
        (["calibrate", "--data", "{name: digits, splt: test}"], "did you mean 'split'"),
        (["calibrate", "--model", "{name: digits_resnet"], "is not YAML"),
        (["corrupt", "x.png", "-c", "contrst"], "did you mean 'contrast'"),
        (["corrupt", "x.png"], "--sheet"),
        (["corrupt", "x.wav", "-c", "white_noise", "--format", "mp3"], "choose wav or flac"),
        (["train", "digits", "--procedure", "amaut-sc3"], "did you mean 'amaut-sc2'"),
        (["train", "sc2"], "no network comes with speech_commands; name one: --model"),
        (["train", "digits", "--model", "digits_resne"], "did you mean 'digits_resnet'"),
        (["train", "digit"], "did you mean 'digits'"),
    ],
)
def test_mistakes_are_reported_in_one_sentence(
    words: list[str], hint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert hint in fails(monkeypatch, capsys, *words)


def test_the_version_is_printed() -> None:
    assert invoke("--version") == f"holdfast {holdfast.__version__}\n"


def test_errors_are_one_line_unless_a_traceback_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise TypeError("unsupported operand")

    monkeypatch.setattr("holdfast.commands.catalogue.catalogue", fail)
    monkeypatch.setattr("sys.argv", ["holdfast", "list"])
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().err.startswith("holdfast: TypeError: unsupported operand; run holdfast --debug")
    monkeypatch.setattr("sys.argv", ["holdfast", "list", "--debug"])
    with pytest.raises(TypeError):
        main()


def test_exponents_without_a_point_are_numbers() -> None:
    assert parse_settings(["recipes.0.lr=1e-3"]) == {"recipes.0.lr": 0.001}
    (job,) = parse_suite(
        "{name: x, models: [digits_resnet], streams: [{name: continual, data: digits, corruptions: [contrast]}], "
        "recipes: [{name: tent, lr: 1e-3}]}"
    ).jobs()
    assert job.recipe.options == {"lr": 0.001}


def test_progress_outside_of_a_terminal_is_a_line_for_each_finished_run() -> None:
    text = io.StringIO()
    with LiveProgress(2, Console(file=text)) as live:
        live(Progress("tent-0123abcd", "tent, gradual, digits_resnet, seed 0", 32, 64, 16, False))
        live(Progress("tent-0123abcd", "tent, gradual, digits_resnet, seed 0", 64, 64, 48, True))
    assert text.getvalue() == "1 of 2: tent, gradual, digits_resnet, seed 0, error 25.0 %\n"


def test_progress_in_a_terminal_shows_the_runs_that_fit_and_counts_the_others() -> None:
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=100, height=8, legacy_windows=False)
    with LiveProgress(40, console) as live:
        for number in range(20):
            live(Progress(f"job{number}", f"tent, gradual, digits_resnet, seed {number}", 32, 64, 16, False))
        live(Progress("job3", "tent, gradual, digits_resnet, seed 3", 64, 64, 48, True))
        text.truncate(0)
    shown = text.getvalue()  # the last frame
    assert "1/40" in shown
    assert "14 more go on" in shown
    assert [number for number in range(20) if f"seed {number} " in shown] == [0, 1, 2, 4, 5]


@pytest.mark.parametrize(
    ("data", "network"), [("cifar10", "cifar_resnet"), ("us8", "small_amaut"), ("image_folder", "cifar_resnet")]
)
def test_a_hint_names_a_network_for_the_kind_of_data(data: str, network: str) -> None:
    result = CliRunner().invoke(app, ["train", data])
    assert f"{{name: {network}," in str(result.exception)


def test_words_of_a_calibration_are_checked_before_anything_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.calibration.meter.Meter.percent", None)  # nothing can be measured
    for option, words in (
        ("--difficulty", "unknown difficulty"),
        ("--family", "unknown family"),
        ("--crop", "crop must"),
    ):
        result = CliRunner().invoke(app, ["calibrate", option, "wrong"])
        assert words in str(result.exception)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("bench demo-", "demo-rescue"),
        ("bench aetta-fully --scale sm", "smoke"),
        ("bench demo --executor pro", "processes"),
        ("serve --method rdu", "rdumb"),
        ("recommend digits_", "digits_resnet"),
        ("list meth", "methods"),
    ],
)
def test_a_shell_completes_names(words: str, expected: str) -> None:
    environment = {"_HOLDFAST_COMPLETE": "complete_bash", "COMP_WORDS": f"holdfast {words}"}
    environment["COMP_CWORD"] = str(len(words.split(" ")))
    result = CliRunner().invoke(app, [], prog_name="holdfast", env=environment)
    assert expected in result.stdout.split()


def test_the_list_of_commands_is_whole_in_80_columns() -> None:
    listed = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).stdout.partition("Commands:")[2]
    assert len(listed.strip().splitlines()) == len(COMMANDS)
    assert "..." not in listed


def test_card_writes_a_file_and_says_how_to_use_it(tmp_path: Path) -> None:
    out = tmp_path / "cards" / "digits.card"
    printed = invoke("card", "digits_resnet", VALIDATION, "--out", str(out), "--samples", "40")
    card = holdfast.read_card(out)
    card.check(weights_digest(MODELS["digits_resnet"]()))
    assert card.reference.samples == 40
    first, second, last = printed.splitlines()
    assert first == f"40 samples at {len(card.reference.sites)} layers of the network {card.weights[:8]}"
    assert second == f"card: {out} ({out.stat().st_size / 1000:.1f} kB, digest {card.digest[:8]})"
    assert last == f'next: holdfast.adapt(model, card="{out}")'
    facts = json.loads(invoke("card", "digits_resnet", VALIDATION, "--out", str(out), "--samples", "40", "--json"))
    assert (facts["digest"], facts["bytes"]) == (card.digest, out.stat().st_size)


def test_mistakes_about_a_card_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "x.card")
    (tmp_path / "weights.safetensors").write_bytes(b"damaged")
    damaged = f"{{name: cifar_resnet, weights: {tmp_path / 'weights.safetensors'}}}"
    for words, problem in (
        (("card", "digits_resnet", "digts", "--out", out), "did you mean 'digits'"),
        (("card", damaged, VALIDATION, "--out", out), "weights.safetensors"),
    ):
        assert problem in fails(monkeypatch, capsys, *words)
    assert not Path(out).exists()


def test_a_table_fits_a_narrow_terminal() -> None:
    heads, scores = " | ".join(f"domain {number}" for number in range(9)), " | ".join(["12.3"] * 9)
    text = f"| recipe | {heads} | mean |\n| --- |{' --- |' * 10}\n| tent | {scores} | 45.6 |\n\n{'Caption. ' * 9}"
    lines = fitted(text, 60).splitlines()
    assert max(map(len, lines)) <= 60
    assert lines[2].endswith("45.6")  # the mean is never left out
    assert "(5 more columns: see the report)" in lines
    assert fitted(text, 200).splitlines()[:3] == text.splitlines()[:3]
