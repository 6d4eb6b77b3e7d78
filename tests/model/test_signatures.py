"""The documents and examples pass a type checker, which knows the options of every method."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    "README.md",
    "docs/index.md",
    "docs/networks.md",
    "docs/serving.md",
    "docs/streams.md",
    *(f"docs/{page}" for page in ("tutorials/first_adaptation.md", "tutorials/guarded_model.md")),
)

CALLS = """\
import holdfast
from holdfast.models.tiny import tiny_resnet

network = tiny_resnet()
holdfast.adapt(network)
holdfast.adapt(network, "tent", lr=0.1, recovery="periodic", every_batches=5)
holdfast.adapt(network, "rdumb", every_batches=5)
holdfast.guard(network, "tent", budget=0.1)
holdfast.adapt(network, card=holdfast.make_card(network, []))
holdfast.guard(network, card="network.card")
for name in holdfast.list_methods():
    holdfast.adapt(network, name, in_place=True)
holdfast.adapt(network, "tent", learning_rate=0.1)  # error
holdfast.adapt(network, "tent", lr="fast")  # error
holdfast.adapt(network, "unitta", distance="l2")  # error
holdfast.adapt(network, fisher_weight=0.1)  # error
holdfast.adapt(network, card=5)  # error
holdfast.guard(network, "tnet")  # error
holdfast.guard(network, "tent", budgte=0.1)  # error
"""


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / "README.md").exists(), reason="the documents are not beside the tests")
def test_a_type_checker_passes_the_documents_and_finds_wrong_options(tmp_path: Path) -> None:
    for page in PAGES:
        blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
        assert blocks, page
        (tmp_path / f"{page.replace('/', '_').removesuffix('.md').lower()}.py").write_text("\n".join(blocks))
    for program in (ROOT / "examples").rglob("*.py"):
        (tmp_path / f"examples_{program.name}").write_text(program.read_text())
    (tmp_path / "calls.py").write_text(CALLS)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml"), str(tmp_path)]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False).stdout
    # A cached error has the path of an earlier test.
    errors = [re.sub(r"^.*/(?=\w+\.py:)", "", line) for line in printed.splitlines() if ": error: " in line]
    wrong = [number for number, line in enumerate(CALLS.splitlines(), 1) if line.endswith("# error")]
    assert [":".join(line.split(":")[:2]) for line in errors] == [f"calls.py:{number}" for number in wrong], errors
