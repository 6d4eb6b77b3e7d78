"""Find words that readers trip over in README, CHANGELOG, docs and docstrings: `python docs/prose.py`.

Code is left out: fenced blocks, indented blocks, `code` and HTML comments. A word that is meant is written differently,
or its pattern is made narrower here.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Pattern -> what to write instead. Patterns are matched in any case and at the borders of words.
ANYWHERE = {
    r"\((?:limit|aim|target)s? [\d.]+\)": "the measurement alone; aims are not for readers",
    r"(?:the|our) aim (?:was|is)|was aimed at": "the measurement alone",
    r"of before": "previous, or leave the history out",
    r"pilots? (?:that )?(?:is|are|was|were) not committed": "commit the result, or leave it out",
    r"of the same making": "name the network",
    r"in kind": "say what can be reproduced",
    r"of one's own|of yours": "your own, or custom",
    r"nobody|whoever|an outsider": "name who is meant",
    r"too dear|dearer": "over budget, more expensive",
    r"(?:own|its) echo": "reinforces its own predictions",
    r"learns?(?:t|ed)? from|learning from": "adapt to, train on, follow",
    r"upholds?": "agrees with",
    r"upside down|too small to be true|in earnest|without doubt|as at home": "say it plainly",
    r"where that is due|what has moved|tells? everything": "subject, verb, object",
    r"sounds": "audio",
    r"a place in (?:a|the) (?:tuple|list|stream)": "an index, a position",
}
ON_PAGES = {  # in docstrings some of these are names of the code
    r"verdicts?|judgements?": "estimate, decision or result",
    r"judge[sd]?|judging": "estimate, compare, decide",
    r"believe[sd]?": "gives … probability",
}


def prose(text: str) -> str:
    """Return a Markdown text with everything that is code blanked, line by line.

    >>> prose("a `b` c")
    'a     c'
    """

    def blank(code: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", code.group())

    pattern = r"^```.*?^```|^    .*?$|``.+?``|`[^`]*`|<!--.*?-->|\]\([^)]*\)"
    return re.sub(pattern, blank, text, flags=re.DOTALL | re.MULTILINE)


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of every docstring of a module."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield (node.body[0].lineno, re.sub(r"^ *(?:>>>|\.\.\.) .*$", "", text, flags=re.MULTILINE))


def findings() -> Iterator[str]:
    """Yield one line for each word, with what to write instead."""
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
    texts = [(page, 1, page.read_text(encoding="utf-8"), {**ANYWHERE, **ON_PAGES}) for page in pages]
    modules = sorted((ROOT / "holdfast").rglob("*.py"))
    texts += [(path, line, text, ANYWHERE) for path in modules for line, text in docstrings(path)]
    for path, start, text, words in texts:
        plain = prose(text)
        for word, better in words.items():
            for match in re.finditer(rf"(?<!\w)(?:{word})(?!\w)", plain, re.IGNORECASE):
                line = start + text.count("\n", 0, match.start())
                yield f"{path.relative_to(ROOT)}:{line}: {match.group()!r}: {better}"


if __name__ == "__main__":
    lines = list(findings())
    sys.exit("\n".join(lines) if lines else 0)
