"""doctor: each fault is found, named and given a remedy, and a healthy set-up is not blamed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from typer.testing import CliRunner

import holdfast
from holdfast.cli import app
from holdfast.data import DATASETS
from holdfast.diagnosis import Diagnosis
from holdfast.diagnosis.data import labelled_batches
from holdfast.model.adapt import adapt
from holdfast.models import Normalised, digits_resnet, digits_resnet_gn, digits_vit
from holdfast.models.tiny import tiny_resnet
from holdfast.records import SetupWarning

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pytest.fixture(scope="module")
def digits() -> list[tuple[Tensor, Tensor]]:
    return list(labelled_batches(DATASETS["digits"](), 16, 32))


def examined(model: nn.Module, data: object = None, **options: object) -> Diagnosis:
    return holdfast.doctor(model, data, methods=(), **options)  # type: ignore[arg-type]


def status(diagnosis: Diagnosis, check: str) -> str:
    (one,) = (finding for finding in diagnosis.findings if finding.check == check)
    assert one.status == "ok" or one.remedy, f"{check} has no remedy"
    return one.status


def test_a_healthy_set_up_has_no_fault(digits: list[tuple[Tensor, Tensor]]) -> None:
    diagnosis = holdfast.doctor(digits_resnet(), digits, methods=["tent", "neo"], expected_accuracy=0.98)
    assert not diagnosis.failed
    assert [cost.method for cost in diagnosis.costs] == ["source", "tent", "neo"]
    assert all(cost.milliseconds and cost.times_source for cost in diagnosis.costs)
    assert [layer.treatment for layer in diagnosis.layers] == ["replaced"] * 9
    json.dumps(diagnosis.to_dict())


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda x: x * 255, "divide pixels by 255"),
        (lambda x: x / 255, "multiply by 255"),
    ],
)
def test_a_wrong_scale_is_told_with_and_without_labels(
    change: object, words: str, labelled: bool, digits: list[tuple[Tensor, Tensor]]
) -> None:
    data = [(change(inputs), labels) if labelled else change(inputs) for inputs, labels in digits]  # type: ignore[operator]
    (fault,) = (finding for finding in examined(digits_resnet(), data).failed if finding.check == "input scale")
    assert words in fault.remedy


def test_normalising_twice_is_told(digits: list[tuple[Tensor, Tensor]]) -> None:
    twice = Normalised(digits_vit(), MEAN, STD)
    (fault,) = (finding for finding in examined(twice, digits).failed if finding.check == "input scale")
    assert "applied twice" in fault.remedy
    assert "accuracy would be" in fault.observed


@pytest.mark.parametrize("labelled", [True, False])
def test_a_wrong_scale_is_told_without_running_statistics(labelled: bool, digits: list[tuple[Tensor, Tensor]]) -> None:
    data = [(255 * inputs, labels) if labelled else 255 * inputs for inputs, labels in digits]
    (fault,) = (finding for finding in examined(digits_resnet_gn(), data).failed if finding.check == "input scale")
    assert "divide pixels by 255" in fault.remedy
    right = [(inputs, labels) if labelled else inputs for inputs, labels in digits]
    assert status(examined(digits_resnet_gn(), right), "input scale") == "ok"


def test_wrong_labels_are_not_taken_for_a_wrong_scale(digits: list[tuple[Tensor, Tensor]]) -> None:
    """With labels counted from 1 the network is never right, and any other scale is right by chance."""
    diagnosis = examined(digits_vit(), [(inputs, labels + 1) for inputs, labels in digits])
    assert (status(diagnosis, "input scale"), status(diagnosis, "labels")) == ("ok", "fail")


def test_a_network_for_minus_one_to_one_is_told(digits: list[tuple[Tensor, Tensor]]) -> None:
    class Centred(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = digits_resnet()

        def forward(self, images: Tensor) -> Tensor:
            logits: Tensor = self.network(images / 2 + 0.5)
            return logits

    for data, words in ((digits, r"mean and std of 0.5"), ([(255 * x, y) for x, y in digits], r"/ 127.5 - 1")):
        (fault,) = (finding for finding in examined(Centred(), data).failed if finding.check == "input scale")
        assert words in fault.remedy


class Coloured(nn.Module):
    """Predicts whether the first or the last channel is the larger one."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 2)
        self.fc.weight.data = torch.tensor([[9.0, 0.0, -9.0], [-9.0, 0.0, 9.0]])

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.fc(images.mean((2, 3)))
        return logits


def test_reversed_channels_are_told() -> None:
    images = torch.rand(64, 3, 1, 1, generator=torch.Generator().manual_seed(0)).expand(-1, -1, 8, 8)
    labels = (images[:, 2, 0, 0] > images[:, 0, 0, 0]).long()
    right = examined(Coloured().eval(), [(images, labels)])
    assert status(right, "input scale") == "ok"
    (fault,) = (
        finding
        for finding in examined(Coloured().eval(), [(images.flip(1), labels)]).failed
        if "scale" in finding.check
    )
    assert "BGR" in fault.remedy


def test_a_small_loss_by_reversed_channels_is_worth_a_warning() -> None:
    labels = torch.arange(400) % 2
    grey = torch.rand(400, 1, 1, 1, generator=torch.Generator().manual_seed(0)).expand(-1, 3, 8, 8).clone()
    grey[labels == 0, 0] += 0.1
    grey[labels == 1, 2] += 0.1
    for reversed_samples, expected in ((16, "ok"), (224, "warn"), (300, "fail")):  # 4, 56 and 75 % of them
        images = torch.cat([grey[:reversed_samples].flip(1), grey[reversed_samples:]])
        assert status(examined(Coloured().eval(), [(images, labels)]), "input scale") == expected


def test_labels_and_accuracy(digits: list[tuple[Tensor, Tensor]]) -> None:
    network = digits_resnet()
    assert status(examined(network, [(x, y + 1) for x, y in digits]), "labels") == "fail"
    seven = [(x[y < 9], y[y < 9] + 1) for x, y in digits]
    shifted = examined(network, seven)
    assert "labels - 1" in next(finding for finding in shifted.failed if finding.check == "clean accuracy").remedy
    shuffled = [(x, y[torch.randperm(len(y), generator=torch.Generator().manual_seed(0))]) for x, y in digits]
    assert status(examined(network, shuffled), "clean accuracy") == "fail"
    corrupted = [(x + torch.randn(x.shape, generator=torch.Generator().manual_seed(0)), y) for x, y in digits]
    assert status(examined(network, corrupted, expected_accuracy=0.99), "clean accuracy") == "fail"


def test_faults_of_the_network() -> None:
    assert status(examined(nn.Sequential(tiny_resnet(), nn.Softmax(1))), "output") == "fail"
    assert status(examined(nn.Sequential(tiny_resnet(), nn.LogSoftmax(1))), "output") == "ok"
    assert status(examined(tiny_resnet().train()), "mode") == "warn"
    assert status(examined(tiny_resnet().requires_grad_(False)), "frozen weights") == "warn"
    assert status(examined(tiny_resnet().bfloat16()), "dtype") == "warn"
    assert (
        status(
            examined(nn.Sequential(nn.Flatten(), nn.Linear(12, 3)), example=torch.zeros(1, 3, 2, 2)), "normalisation"
        )
        == "warn"
    )
    poisoned = tiny_resnet()
    poisoned.fc.bias.data[0] = torch.nan
    assert status(examined(poisoned), "weights") == "fail"
    assert status(examined(nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(7, 4))), "network") == "fail"


def test_layers_that_are_refused_or_never_called_are_named() -> None:
    class Half(nn.BatchNorm2d):
        def forward(self, features: Tensor) -> Tensor:
            return features / self.running_var.view(-1, 1, 1)  # type: ignore[union-attr]

    def around(layer: nn.Module) -> nn.Module:
        return nn.Sequential(nn.Conv2d(3, 4, 3), layer, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)).eval()

    (fault,) = examined(around(Half(4))).failed
    assert "1 keeps running statistics" in fault.observed
    silent = around(nn.Identity())
    silent[1].unused = nn.BatchNorm2d(4).eval()
    assert status(examined(silent), "layers in use") == "warn"


@pytest.mark.parametrize(("size", "expected"), [(1, "fail"), (8, "warn"), (64, "ok")])
def test_batch_size(size: int, expected: str, digits: list[tuple[Tensor, Tensor]]) -> None:
    assert status(examined(digits_resnet(), digits[:1], batch_size=size), "batch size") == expected
    assert status(examined(digits_vit(), digits[:1], batch_size=size), "batch size") == "ok"


def test_integers_are_told(digits: list[tuple[Tensor, Tensor]]) -> None:
    diagnosis = examined(digits_resnet(), [((x * 255).to(torch.uint8), y) for x, y in digits])
    assert status(diagnosis, "input dtype") == "fail"


@pytest.mark.slow
def test_statistics_of_other_data_are_told_though_the_network_is_right() -> None:
    network, digits = digits_resnet(), list(labelled_batches(DATASETS["digits"](), 32, 128))
    assert status(examined(network, digits), "stored statistics") == "ok"
    assert all(finding.check != "stored statistics" for finding in examined(digits_vit(), digits).findings)
    assert all(finding.check != "stored statistics" for finding in examined(network).findings)
    before = network(digits[0][0])
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm2d):
            _restated(layer)
    assert torch.allclose(network(digits[0][0]), before, atol=1e-3)  # the same function
    diagnosis = examined(network, digits)
    assert status(diagnosis, "stored statistics") == "warn"
    (stored,) = (finding for finding in diagnosis.findings if finding.check == "stored statistics")
    assert "do not fit your data" in stored.observed
    assert stored.remedy == "pass source= or card="


@torch.no_grad()
def _restated(layer: nn.BatchNorm2d) -> None:
    """Let a layer store other statistics, and compute the same by other weights."""
    assert layer.running_mean is not None
    assert layer.running_var is not None
    old = (layer.running_var + layer.eps).sqrt()
    layer.running_var[::2] *= 64.0
    moved = 4 * old
    moved[::2] = 0
    layer.bias += layer.weight * moved / old
    layer.running_mean += moved
    layer.weight *= (layer.running_var + layer.eps).sqrt() / old


@pytest.mark.slow
def test_methods_that_wait_for_source_samples_are_named(digits: list[tuple[Tensor, Tensor]]) -> None:
    methods = ("blend", "anchor", "guard", "lame")

    def observed_with(network: nn.Module, data: object = None, **options: object) -> str:
        diagnosis = holdfast.doctor(network, data, methods=methods, **options)  # type: ignore[arg-type]
        (methods_finding,) = (finding for finding in diagnosis.findings if finding.check == "methods")
        assert methods_finding.status == "ok"
        return methods_finding.observed

    waiting = "no effect without source samples; pass source= or card="
    assert observed_with(digits_resnet()) == f"source, anchor, lame suit this network; blend, guard: {waiting}"
    assert observed_with(digits_resnet_gn()) == f"source, lame suit this network; blend, anchor, guard: {waiting}"
    everything = "source, blend, anchor, guard, lame suit this network"
    assert observed_with(digits_resnet_gn(), digits) == everything
    assert observed_with(digits_resnet_gn(), card=holdfast.make_card(digits_resnet_gn(), digits)) == everything


def test_a_card_of_other_weights_is_a_fault_and_its_file_may_be_named(
    tmp_path: Path, digits: list[tuple[Tensor, Tensor]]
) -> None:
    card = holdfast.make_card(digits_resnet(), digits)
    assert status(examined(digits_resnet(), card=card), "card") == "ok"
    card.save(tmp_path / "digits.card")
    words = ["doctor", "digits_resnet_gn", "--no-costs", "--json", "--card", str(tmp_path / "digits.card")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 1
    (wrong,) = (one for one in json.loads(result.stdout)["findings"] if one["status"] == "fail")
    assert (wrong["check"], "make one for this network" in wrong["remedy"]) == ("card", True)


def test_nothing_changes_in_the_network(digits: list[tuple[Tensor, Tensor]]) -> None:
    network = digits_resnet()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    holdfast.doctor(network, digits, methods=["tent"])
    assert all(torch.equal(before[name], tensor) for name, tensor in network.state_dict().items())
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in network.modules())


def test_the_command_prints_a_table_or_json_and_exits_with_1_for_a_fault() -> None:
    healthy = CliRunner().invoke(app, ["doctor", "digits_resnet", "digits", "--samples", "64", "--no-costs", "--json"])
    assert healthy.exit_code == 0
    assert json.loads(healthy.stdout)["failed"] == 0
    single = CliRunner().invoke(
        app, ["doctor", "digits_resnet", "digits", "--samples", "64", "--no-costs", "--batch-size", "1"]
    )
    assert single.exit_code == 1
    assert "1 fail" in single.stdout
    assert "robust_bn" in single.stdout


def test_adapt_warns_once_of_probabilities_and_of_single_samples(recwarn: pytest.WarningsRecorder) -> None:
    with pytest.warns(SetupWarning, match="returns probabilities"):
        adapt(nn.Sequential(tiny_resnet(), nn.Softmax(1)).eval(), "tent")
    model = adapt(tiny_resnet(), "tent")
    with pytest.warns(SetupWarning, match="got a batch of one, and 'tent' normalises"):
        model(torch.rand(1, 3, 32, 32))
    recwarn.clear()
    model(torch.rand(1, 3, 32, 32))
    adapt(tiny_resnet(), "robust_bn")(torch.rand(1, 3, 32, 32))
    assert not [warning for warning in recwarn if warning.category is SetupWarning]
