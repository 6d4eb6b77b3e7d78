"""Hooks of the site: all methods in the navigation, equations as MathML, figures in the colours of the page."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert


def on_config(config: Any) -> Any:
    """Return the configuration with the pages of all methods below the table to choose from."""
    chapter = next(entry["Methods"] for entry in config.nav if "Methods" in entry)
    pages = sorted(path.name for path in Path(config.docs_dir, "methods").glob("*.md"))
    chapter.extend(f"methods/{name}" for name in pages if name != "README.md")
    return config


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Return a page with equations as MathML, and links out of the documentation replaced by what they show.

    Browsers draw MathML themselves, so that no script is needed. An empty table of contents is hidden.
    """
    if not page.is_homepage and "\n## " not in markdown and "\n::: " not in markdown:
        page.meta["hide"] = ["toc"]

    def plain(link: re.Match[str]) -> str:
        text, target = link.groups()
        outside = posixpath.normpath(posixpath.join(posixpath.dirname(page.file.src_uri), target)).startswith("..")
        return text if outside else link.group(0)

    markdown = re.sub(r"```math\n(.*?)\n```", equation, markdown, flags=re.DOTALL)
    return re.sub(r"(?<!!)\[([^\]]+)\]\(([^):#]+)(?:#[^)]*)?\)", plain, markdown)


def equation(fence: re.Match[str]) -> str:
    """Return an equation in LaTeX as a block of MathML."""
    return f'<div class="equation" tabindex="0">{convert(fence[1], display="block")}</div>'


def on_post_page(output: str, *, page: Any, config: Any) -> str:
    """Return a page with its drawn figures in it, where they follow the colour scheme that the reader chose.

    By now the page has been indexed for the search, which should not show the words of figures.
    """

    def inside(image: re.Match[str]) -> str:
        described, target = image.groups()
        drawn = Path(config.docs_dir, posixpath.dirname(page.file.src_uri), target).read_text(encoding="utf-8")
        drawn = re.sub(r"<title>.*?</title>", "", drawn).replace("\n", "")
        return drawn.replace('role="img"', f'role="img" aria-label="{described}"')

    return re.sub(r'<img alt="([^"]*)" src="([^":]+\.svg)" ?/?>', inside, output)
