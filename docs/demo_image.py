"""Write docs/demo.png: the top of the report of `holdfast demo`, with the fingerprint of its suites.

Run `python docs/demo_image.py runs/demo` after the demo; it needs Chromium.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from holdfast.benchmark import load_suite
from holdfast.report import make_report, write_report
from holdfast.report.rescue import SUITES

IMAGE = Path(__file__).parent / "demo.png"
SIZE = (1100, 1062)  # down to the legend of the first chart


def fingerprint() -> str:
    """Return a digest of all jobs of the demo, whose names hold the digest of their settings."""
    names = [job.name for suite in SUITES for job in load_suite(suite).jobs()]
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]


def draw(runs: Path) -> None:
    """Open the report of the runs in a browser and keep its top."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        raise FileNotFoundError("no Chromium in PATH; install it to draw the report")
    with tempfile.TemporaryDirectory() as folder:
        page = write_report(make_report(runs, "accuracy"), Path(folder) / "report.html")
        shot = Path(folder) / "shot.png"
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=20000"]
        window = f"--window-size={SIZE[0]},{SIZE[1]}"
        command = [browser, *options, window, f"--screenshot={shot}", page.as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
        known = PngInfo()
        known.add_text("suites", fingerprint())
        with Image.open(shot) as image:
            image.convert("P", palette=Image.Palette.ADAPTIVE, colors=64).save(IMAGE, optimize=True, pnginfo=known)


if __name__ == "__main__":
    draw(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/demo"))
