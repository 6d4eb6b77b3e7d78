"""Make the links of README absolute for the package index, which shows it without the files of the repository."""

import re
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).parent


def description() -> str:
    """Return README with the address of the repository, from pyproject.toml, before the names of its files."""
    address = re.search(r'^Source = "(.+)"$', (HERE / "pyproject.toml").read_text(), re.MULTILINE)
    assert address is not None, "pyproject.toml has no address of the source"
    text = (HERE / "README.md").read_text()
    for link, folder in ((r"(!\[[^\]]*\])", "raw"), (r"((?<!!)\[[^\]]*\])", "blob")):
        text = re.sub(rf"{link}\((?!https?:|#)([^)]+)\)", rf"\1({address.group(1)}/{folder}/HEAD/\2)", text)
    return text


if __name__ == "__main__":
    setup(long_description=description(), long_description_content_type="text/markdown")
