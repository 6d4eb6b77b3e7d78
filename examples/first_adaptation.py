# %% [markdown]
# # First adaptation
# A network that was trained on clean digits meets noisy ones. `holdfast.adapt` returns a network that adapts to its
# inputs while it predicts; it sees no labels.

# %%
import numpy as np
from torch import nn

import holdfast
from holdfast.data import Digits
from holdfast.models import digits_resnet
from holdfast.streams import continual

network = digits_resnet()  # trained; its weights are in the package
noisy = continual(Digits(), corruptions=["impulse_noise", "snow"], family="224", severity=2, samples_per_domain=256)


def accuracy(model: nn.Module, stream: holdfast.Stream) -> float:
    """Return the share of correct predictions in %."""
    right = [model(batch.inputs).argmax(1).numpy() == batch.labels for batch in stream]
    return 100 * float(np.concatenate(right).mean())


# %% [markdown]
# The source is the network as it was given. The default trains no weights; TENT trains those of the normalisation
# layers.

# %%
found = {name: accuracy(holdfast.adapt(network, name), noisy) for name in ("source", "blend", "tent")}
for name, share in found.items():
    print(f"{name:6} {share:.0f} %")
assert found["source"] < min(found["blend"], found["tent"])

# %% [markdown]
# `step` does the same and says more. `describe` lists the options of a method and what each means.

# %%
model = holdfast.adapt(network, "tent", lr=1e-3, estimator="softmax_score")
batch = next(iter(noisy))
step = model.step(batch.inputs)
print(step.estimates["softmax_score"])  # of the accuracy, without labels
print(holdfast.describe("tent").use_when)
