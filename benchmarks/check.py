"""Compare results of a quick run with the committed ones: `python benchmarks/check.py FOLDER`, or `make bench-check`.

Prints each compared figure that lies outside the committed spread, and each committed figure that misses its aim;
`targets.toml` names both. Exits with 1 if a figure lies outside.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from measured import Figure, figures
from targets import read_targets

RESULTS = Path(__file__).resolve().parents[1] / "results"


def figures_of(path: Path) -> dict[str, Figure]:
    """Return the figures of a result; none if there is no such file."""
    return figures(json.loads(path.read_text())) if path.exists() else {}


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="of the results of `python benchmarks/all.py --quick --out FOLDER`")
    parser.add_argument("--committed", type=Path, default=RESULTS, metavar="FOLDER")
    options = parser.parse_args()
    outside = 0
    for name, targets in read_targets().items():
        quick, committed = (figures_of(folder / f"{name}.json") for folder in (options.folder, options.committed))
        if quick and not committed:
            print(f"{name}: no committed result")
        for path, value in targets.outside(quick, committed):
            print(f"{name}: {path} is {value:.3g}, outside the committed {committed[path].text(3)}")
            outside += 1
        for aim in targets.aims:
            for path, figure, met in aim.judged(committed):
                if not met:
                    print(f"{name}: {path} is {figure.text(3)}, and should be {aim.text()}")
    print(f"{outside} figures lie outside the committed ones" if outside else "no figure lies outside")
    sys.exit(outside > 0)


if __name__ == "__main__":
    main()
