"""Compare the addresses on all pages with those in docs/links.txt: `python docs/check_links.py`.

No address is fetched, so that the check needs no network. `--online` asks each of them once; do so before a release.
"""

from __future__ import annotations

import argparse
import re
import sys
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "docs" / "links.txt"
OURS = ("http://localhost", "http://127.0.0.1", "http://0.0.0.0", "https://holdfast.example")  # no pages of others
ADDRESS = re.compile(r"https?://[^\s<>\"'`)\]}|]+")


def addresses() -> dict[str, list[str]]:
    """Return every address with the pages that have it; code blocks are left out, since theirs are examples."""
    pages: dict[str, list[str]] = {}
    for page in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]):
        text = re.sub(r"^( *)```.*?^\1```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
        for match in ADDRESS.findall(text):
            address = match.rstrip(".,;:*")
            if not address.startswith(OURS) and "…" not in address:
                pages.setdefault(address, []).append(str(page.relative_to(ROOT)))
    return pages


def listed() -> list[str]:
    """Return the addresses of the list."""
    return [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]


def mistakes() -> list[str]:
    """Return one sentence for each address that is on a page or in the list only."""
    linked, known = addresses(), listed()
    new = [
        f"{address} ({', '.join(pages)}) is not in docs/links.txt; open it, then add it"
        for address, pages in linked.items()
        if address not in known
    ]
    return [
        *new,
        *(f"{address} in docs/links.txt is on no page; remove it" for address in known if address not in linked),
    ]


def answer(address: str) -> str:
    """Return what the server of an address says, as a number or an error."""
    request = urllib.request.Request(address, headers={"User-Agent": "Mozilla/5.0 (link check)"})
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return str(response.status)
    except urllib.error.HTTPError as error:
        return str(error.code)
    except OSError as error:
        return str(error)


def main() -> None:
    """Print what is wrong, and fail if anything is."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--online", action="store_true", help="fetch every address of the list, too")
    wrong = mistakes()
    if parser.parse_args().online:
        answers = {address: answer(address) for address in listed()}
        wrong += [f"{address} answers {text}" for address, text in answers.items() if text != "200"]
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"All {len(listed())} addresses are in docs/links.txt")


if __name__ == "__main__":
    main()
