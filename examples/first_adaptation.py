# %% [markdown]
# # First adaptation
# A network that was trained on clean digits meets noisy ones. `holdfast.adapt` returns a network that adapts to its
# inputs while it predicts; it sees no labels.

# %%
import numpy as np

import holdfast
from holdfast.data import Digits
from holdfast.models import digits_resnet
from holdfast.streams import continual

network = digits_resnet()  # trained; its weights are in the package
clean = continual(Digits("validation"), corruptions=["clean"])
holdout = [(batch.inputs, batch.labels) for batch in clean]  # labelled source samples, for estimates only
noisy = continual(Digits(), corruptions=["impulse_noise", "snow"], family="224", severity=2, samples_per_domain=256)


def accuracy(method: str) -> tuple[float, float]:
    """Return the share of correct predictions in %, and its mean estimate without labels of the stream."""
    model = holdfast.adapt(network, method, estimator="anchored", holdout=holdout)
    steps = [(model.step(batch.inputs), batch.labels) for batch in noisy]
    right = np.concatenate([step.logits.argmax(1).numpy() == labels for step, labels in steps])
    return 100 * float(right.mean()), 100 * float(np.mean([step.estimates["anchored"].value for step, _ in steps]))


# %% [markdown]
# The source is the network as it was given. The default trains no weights; TENT trains those of the normalisation
# layers.

# %%
accuracies = {method: accuracy(method) for method in ("source", "blend", "tent")}
for method, (share, estimated) in accuracies.items():
    print(f"{method:6} {share:.0f} %, estimated {estimated:.0f} %")
assert accuracies["source"] < min(accuracies["blend"], accuracies["tent"])

# %% [markdown]
# `step` does the same and says more. `describe` lists the options of a method and what each means.

# %%
model = holdfast.adapt(network, "tent", lr=1e-3, estimator="softmax_score")
batch = next(iter(noisy))
step = model.step(batch.inputs)
print(step.estimates["softmax_score"])  # of the accuracy, without labels
print(holdfast.describe("tent").use_when)
