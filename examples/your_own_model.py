# %% [markdown]
# # Your own model: doctor, recommend, guard
# Any torch classifier can be adapted. Here it is a small one, trained on the spot in a few seconds.

# %%
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import holdfast
from holdfast.commands.recommend import recommend, scenario_of
from holdfast.data import Digits
from holdfast.data.tensors import as_inputs
from holdfast.models import MODELS

torch.manual_seed(0)
network = nn.Sequential(
    *(nn.Conv2d(3, 16, 3, stride=2), nn.BatchNorm2d(16), nn.ReLU()),
    *(nn.Conv2d(16, 32, 3, stride=2), nn.BatchNorm2d(32), nn.ReLU()),
    *(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(128, 10)),
)
data = Digits("train")
inputs, labels = as_inputs(data.inputs(np.arange(len(data.labels)))), torch.from_numpy(data.labels)
optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
for _ in range(4):
    for chosen in torch.randperm(len(inputs)).split(64):
        optimizer.zero_grad()
        F.cross_entropy(network(inputs[chosen]), labels[chosen]).backward()
        optimizer.step()
network.eval()

# %% [markdown]
# ## Doctor
# Before anything adapts, check the network and a few labelled samples of the data it was trained on: range of the
# inputs, layers, accuracy, and the cost of a step on this machine.

# %%
checked = Digits("validation")
clean = [(as_inputs(checked.inputs(np.arange(128))), torch.from_numpy(checked.labels[:128]))]
diagnosis = holdfast.doctor(network, clean, methods=["tent"], batches=1)
for finding in diagnosis.failed:
    print(finding.check, finding.observed, finding.remedy)
print("failed checks:", len(diagnosis.failed))
assert not diagnosis.failed

# %% [markdown]
# The same with inputs in 0 to 255 is found before it does harm.

# %%
wrong = holdfast.doctor(network, [(255 * clean[0][0], clean[0][1])], methods=["tent"], batches=1)
print(wrong.failed[0].check, "–", wrong.failed[0].remedy)
assert wrong.failed[0].check == "input scale"

# %% [markdown]
# ## Recommend
# `recommend` runs candidates on your data under the stream that you expect. Here two of them on a short stream;
# `holdfast recommend` compares all.

# %%
MODELS.register("mine")(lambda: network)
with tempfile.TemporaryDirectory() as runs:
    recommendation = recommend(
        "mine",
        {"name": "digits", "split": "validation"},
        scenario_of("independent classes, few domains"),
        candidates=["source", "batch_norm"],
        severity=2,
        family="224",  # severities for larger images, which affect coarse digits
        samples=256,
        seeds=1,
        out=Path(runs),
    )
print(recommendation.conclusion)

# %% [markdown]
# ## Guard
# The guard serves source, anchor and adapted network together, undoes updates that do harm, and raises alarms.

# %%
model = holdfast.guard(network, "tent", holdout=clean)
for first in range(0, 512, 64):
    step = model.step(inputs[first : first + 64].flip(-1))  # mirrored digits
print(step.estimates["guard"])
print({name: int(count) for name, count in step.gauges.items()})
