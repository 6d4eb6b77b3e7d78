"""The wrapper finds out what a network is, and leaves it as it was."""

from __future__ import annotations

import copy
from collections import UserDict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.model.adapt import adapt
from holdfast.models import Classifier, Normalised, ViT, tiny_resnet, tiny_vit, weights_digest
from holdfast.records import InputSpec


class Answering(nn.Module):
    """A network whose output is whatever `answer` makes of the logits."""

    def __init__(self, answer: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.network = tiny_resnet()
        self.answer = answer

    def forward(self, inputs: Tensor) -> object:
        return self.answer(self.network(inputs))


class Forgetful(nn.Module):
    """A network with everything that probing must not disturb: counters, dropout, mixed modes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("replaced", torch.zeros(()))
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.fc = nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls += 1
        self.replaced = self.replaced + 1
        logits: Tensor = self.fc(F.dropout(self.body(inputs), training=True))
        return logits


@pytest.fixture
def inputs() -> Tensor:
    return torch.rand(5, 3, 32, 32, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("norm", ["batch", "group", "layer"])
def test_probing_finds_what_a_network_is(norm: str) -> None:
    classifier = Classifier(tiny_resnet(norm, num_classes=7))
    assert classifier.num_classes == 7
    assert classifier.input_spec == InputSpec("image", (3, 32, 32))
    assert classifier.head_name == "fc"
    assert classifier.head is classifier.module.fc
    assert classifier.normalisation == norm
    assert len(classifier.norm_layers()) == 6
    assert not classifier.training  # nor is the network
    assert (classifier.device, classifier.dtype) == (torch.device("cpu"), torch.float32)


def test_input_size_is_found_where_only_one_fits() -> None:
    flat = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(2 * 26 * 26, 4))
    assert Classifier(flat).input_spec == InputSpec("image", (1, 28, 28))
    assert Classifier(tiny_vit(size=64)).input_spec.shape == (3, 64, 64)
    assert Classifier(nn.Linear(9, 4)).input_spec == InputSpec("other", (9,))


def test_example_decides_the_input_size() -> None:
    assert Classifier(tiny_resnet(), example=torch.zeros(1, 3, 16, 24)).input_spec.shape == (3, 16, 24)


def test_waveforms_with_and_without_a_channel() -> None:
    conv = nn.Sequential(nn.Conv1d(1, 4, 9, 4), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(4, 3))
    assert Classifier(conv).input_spec == InputSpec("audio", (1, 16_000))
    assert Classifier(nn.Sequential(nn.Unflatten(1, (1, -1)), conv)).input_spec == InputSpec("audio", (16_000,))


def test_declared_sizes_come_first() -> None:
    timm, hugging_face = tiny_resnet(), tiny_resnet()
    timm.default_cfg = {"input_size": (3, 48, 40)}
    hugging_face.config = SimpleNamespace(image_size=48, num_channels=3)
    assert Classifier(Normalised(timm, [0.5] * 3, [0.5] * 3)).input_spec.shape == (3, 48, 40)
    assert Classifier(hugging_face).input_spec.shape == (3, 48, 48)


@pytest.mark.parametrize(
    "answer", [lambda x: SimpleNamespace(logits=x), lambda x: {"logits": x}, lambda x: UserDict(logits=x)]
)
def test_logits_inside_other_outputs(answer: Callable[[Tensor], object], inputs: Tensor) -> None:
    classifier = Classifier(Answering(answer))
    assert classifier.head_name == "network.fc"
    assert torch.equal(classifier(inputs), classifier.module.network(inputs))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda logits: logits[:, :, None], r"returns shape \(2, 10, 1\) for 2 inputs; return logits"),
        (lambda logits: logits[:1], r"returns shape \(1, 10\) for 2 inputs"),
        (lambda logits: logits[:, :1], r"shape \(2, 1\); pass output='binary'"),
        (lambda logits: (logits, logits), "returns a tuple of 2; pass output= with the place"),
        (lambda logits: {"scores": logits}, "a mapping with the keys 'scores'; pass output= with the key"),
    ],
)
def test_what_are_not_logits_is_said_so(answer: Callable[[Tensor], object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Classifier(Answering(answer))


@pytest.mark.parametrize(
    ("answer", "output"),
    [
        (lambda logits: (None, logits), 1),
        (lambda logits: {"scores": logits}, "scores"),
        (lambda logits: SimpleNamespace(scores=logits), "scores"),
        (lambda logits: [logits], lambda returned: returned[0]),
    ],
)
def test_output_says_where_the_logits_are(answer: Callable[[Tensor], object], output: Any, inputs: Tensor) -> None:
    classifier = Classifier(Answering(answer), output=output)
    assert classifier.head_name == "network.fc"
    assert torch.equal(classifier(inputs), classifier.module.network(inputs))


@pytest.mark.parametrize("answer", [lambda z: z, lambda z: z[:, 0], lambda z: {"logits": z}])
def test_one_logit_becomes_the_logits_of_two_classes(answer: Callable[[Tensor], object], inputs: Tensor) -> None:
    network = Answering(answer)
    network.network.fc = nn.Linear(network.network.fc.in_features, 1)
    classifier = Classifier(network, output="binary")
    logits, features = classifier.forward_with_features(inputs)
    assert classifier.num_classes == 2
    assert torch.allclose(logits.softmax(1)[:, 1], network.network(inputs)[:, 0].sigmoid())
    assert torch.equal(classifier.classify(features), logits)


def test_a_wrong_output_names_what_there_is() -> None:
    with pytest.raises(ValueError, match=r"keys 'scores', which has no tensor for output='probs'"):
        Classifier(Answering(lambda logits: {"scores": logits}), output="probs")
    with pytest.raises(ValueError, match=r"output='binary' is for one logit"):
        Classifier(tiny_resnet(), output="binary")


def test_hopeless_modules_say_what_to_pass() -> None:
    odd_size = nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(7, 4))
    with pytest.raises(ValueError, match=r"not accept any of the sizes tried; .*example=torch\.zeros\(1, 3, H, W\)"):
        Classifier(odd_size)
    with pytest.raises(ValueError, match=r"inputs of shape \(1, 3, 8, 8\)"):
        Classifier(odd_size, example=torch.zeros(1, 3, 8, 8))


def test_squeezed_batches_of_one_are_refused_with_a_sentence(inputs: Tensor) -> None:
    classifier = Classifier(Answering(lambda logits: logits.squeeze(0)))
    assert classifier(inputs).shape == (5, 10)
    with pytest.raises(ValueError, match=r"returns shape \(10,\) for 1 inputs"):
        classifier(inputs[:1])


def test_the_network_is_left_as_it_was() -> None:
    network = Forgetful().train()
    network.body[1].eval()
    network.fc.weight.grad = torch.ones(3, 4)
    replaced = network.replaced
    before, modes = weights_digest(network), [part.training for part in network.modules()]
    random_state = torch.random.get_rng_state()
    classifier = Classifier(network)
    assert classifier.module is network
    assert weights_digest(network) == before
    assert network.replaced is replaced
    assert [part.training for part in network.modules()] == modes
    assert classifier.training
    assert torch.equal(torch.random.get_rng_state(), random_state)
    assert torch.equal(network.fc.weight.grad, torch.ones(3, 4))
    assert network.body[0].weight.grad is None
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in network.modules())


def test_a_failed_probe_leaves_no_trace_either() -> None:
    network = nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(7, 4)).train()
    with pytest.raises(ValueError, match="does not accept"):
        Classifier(network)
    assert all(part.training and not part._forward_hooks for part in network.modules())


@pytest.mark.parametrize("norm", ["batch", "group", "layer"])
def test_encode_then_classify_is_forward(norm: str, inputs: Tensor) -> None:
    classifier = Classifier(tiny_resnet(norm))
    logits, features = classifier.forward_with_features(inputs)
    assert features.shape == (5, 16)
    assert torch.equal(logits, classifier(inputs))
    assert torch.equal(features, classifier.encode(inputs))
    assert torch.equal(classifier.classify(features), logits)


def test_a_convolution_can_be_the_head(inputs: Tensor) -> None:
    pooled = nn.Sequential(nn.Conv2d(3, 6, 3), nn.AdaptiveAvgPool2d(1))
    classifier = Classifier(nn.Sequential(pooled, nn.Conv2d(6, 4, 1), nn.Flatten(), nn.Dropout()).eval())
    logits, features = classifier.forward_with_features(inputs)
    assert classifier.head_name == "1"
    assert features.shape == (5, 6)
    assert torch.equal(classifier.classify(features), logits)


def test_gradients_flow_through_features(inputs: Tensor) -> None:
    classifier = Classifier(tiny_resnet())
    classifier.encode(inputs).sum().backward()
    assert classifier.module.conv.weight.grad is not None
    assert classifier.module.fc.weight.grad is None


def test_hooks_are_removed_on_error() -> None:
    classifier = Classifier(tiny_resnet())
    with pytest.raises(RuntimeError):
        classifier.encode(torch.zeros(2, 4, 8, 8))
    assert not classifier.head._forward_pre_hooks


def test_a_head_that_is_not_the_last_step_is_no_head() -> None:
    scaled = Classifier(Answering(lambda logits: logits / 2))
    scaled_in_place = Classifier(Answering(lambda logits: logits.mul_(0.5)))
    for classifier in (scaled, scaled_in_place):
        assert classifier.head_name is None
        assert classifier.head is None
        with pytest.raises(ValueError, match="make the last step a separate layer and pass head="):
            classifier.encode(torch.zeros(1, 3, 32, 32))


def test_a_layer_before_an_activation_is_no_head_even_if_all_its_values_pass() -> None:
    linear = nn.Linear(3, 4)
    nn.init.constant_(linear.bias, 9.0)  # all values are positive, so that ReLU changes none
    assert Classifier(nn.Sequential(linear, nn.ReLU()), example=torch.zeros(1, 3)).head_name is None
    assert Classifier(nn.Sequential(linear, nn.Identity()), example=torch.zeros(1, 3)).head_name == "0"


def test_weights_of_the_network_itself_make_it_no_head() -> None:
    class Cosine(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Flatten(), nn.Linear(12, 8))
            self.weight = nn.Parameter(torch.ones(4, 8))

        def forward(self, inputs: Tensor) -> Tensor:
            return F.linear(self.body(inputs), self.weight)

    assert Classifier(Cosine(), example=torch.zeros(1, 3, 2, 2)).head_name is None
    assert Classifier(nn.Linear(12, 4)).head_name == ""


def test_head_by_name() -> None:
    network = nn.Sequential(nn.Flatten(), nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 4), nn.Softmax(1)))
    example = torch.zeros(1, 3, 2, 2)
    with pytest.raises(ValueError, match=r"pass head='...' with one of '1.3', '1'"):
        Classifier(network, example=example).encode(example)
    classifier = Classifier(network, example=example, head="1")
    assert classifier.encode(torch.rand(2, 3, 2, 2)).shape == (2, 12)
    with pytest.raises(ValueError, match=r"has no module '1\.9'"):
        Classifier(network, example=example, head="1.9")
    with pytest.raises(ValueError, match=r"the output of '1\.0' is not the logits"):
        Classifier(network, example=example, head="1.0")


def test_samples_are_counted(inputs: Tensor) -> None:
    classifier = Classifier(tiny_resnet())
    assert classifier.samples_forwarded == 0
    classifier(inputs)
    features = classifier.encode(inputs)
    classifier.classify(features)
    classifier.forward_with_features(inputs[:2])
    assert classifier.samples_forwarded == 12


def test_norm_layers_follow_the_network() -> None:
    classifier = Classifier(tiny_resnet())
    classifier.module.norm = nn.Identity()
    assert "norm" not in classifier.norm_layers()
    assert Classifier(nn.Linear(3, 2)).normalisation == "none"
    assert Classifier(ViT(depth=1)).normalisation == "layer"


def test_compiled_networks_are_unwrapped() -> None:
    network = tiny_resnet()
    compiled = torch.compile(network, backend="eager")
    assert Classifier(compiled).module is network
    assert Normalised(compiled, [0.5] * 3, [0.5] * 3).module is network
    assert weights_digest(compiled) == weights_digest(network)


def test_copies_are_independent(inputs: Tensor) -> None:
    classifier = Classifier(tiny_resnet())
    twin = copy.deepcopy(classifier)
    with torch.no_grad():
        twin.head.weight.zero_()
    assert twin.head is not classifier.head
    assert classifier(inputs).abs().sum() > 0
    assert twin.samples_forwarded == 0
    assert set(classifier.state_dict()) == {f"module.{name}" for name in classifier.module.state_dict()}


def test_other_precisions_are_probed() -> None:
    classifier = Classifier(tiny_resnet().to(torch.bfloat16))
    assert classifier.dtype == torch.bfloat16
    assert classifier.head_name == "fc"


def test_normalised_sees_raw_pixels(inputs: Tensor) -> None:
    mean, std = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0.4, 0.5, 0.6])
    network = tiny_resnet()
    expected = network((inputs - mean[:, None, None]) / std[:, None, None])
    assert torch.equal(Normalised(network, mean.tolist(), std.tolist())(inputs), expected)


def test_digest_sees_a_single_weight_and_its_name() -> None:
    network = tiny_resnet()
    before = weights_digest(network)
    assert before == weights_digest(copy.deepcopy(network)) == weights_digest(tiny_resnet())
    assert len(before) == 32
    with torch.no_grad():
        network.fc.bias[3] = torch.nextafter(network.fc.bias[3], torch.tensor(1.0))
    assert weights_digest(network) != before
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    second.load_state_dict(first.state_dict())
    assert weights_digest(nn.ModuleDict({"a": first})) != weights_digest(nn.ModuleDict({"b": second}))
    assert weights_digest(copy.deepcopy(first).double()) != weights_digest(first)
    assert weights_digest(copy.deepcopy(first).bfloat16()) != weights_digest(first)


def test_digest_sees_buffers() -> None:
    network = tiny_resnet()
    before = weights_digest(network)
    network.norm.running_mean[0] += 1
    assert weights_digest(network) != before


def test_the_source_predicts_with_the_flags_of_the_callers_weights() -> None:
    network = tiny_resnet()
    network.conv.weight.requires_grad_(False)
    given = {name: weight.requires_grad for name, weight in network.named_parameters()}
    model = adapt(network, "tent")
    seen: dict[str, bool] = {}
    model.get_submodule("_source.module").register_forward_pre_hook(
        lambda module, _: seen.update({name: weight.requires_grad for name, weight in module.named_parameters()})
    )
    frozen = [weight.requires_grad for weight in model.parameters()]
    model.source(torch.rand(2, 3, 16, 16))
    assert seen == given
    assert [weight.requires_grad for weight in model.parameters()] == frozen
    assert not all(frozen)
