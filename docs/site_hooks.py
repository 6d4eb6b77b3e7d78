"""A hook of the site: links to files outside docs/ become plain names, because the site does not have these files."""

from __future__ import annotations

import posixpath
import re
from typing import Any


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Return the text of a page with links out of the documentation replaced by what they show."""

    def plain(link: re.Match[str]) -> str:
        text, target = link.groups()
        outside = posixpath.normpath(posixpath.join(posixpath.dirname(page.file.src_uri), target)).startswith("..")
        return text if outside else link.group(0)

    return re.sub(r"(?<!!)\[([^\]]+)\]\(([^):#]+)(?:#[^)]*)?\)", plain, markdown)
