"""The documentation as tests read it: pages, fenced blocks, sections, tables, anchors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]

_BLOCK = re.compile(r"^```(\S*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^(#+) (.*)$", re.MULTILINE)
_TICKED = re.compile(r"`([^`]+)`")


class Block(NamedTuple):
    page: str
    text: str


class Section(NamedTuple):
    """What stands between a heading and the next one, of whatever level."""

    title: str
    text: str

    @property
    def rows(self) -> list[list[str]]:
        """The cells of its tables, without headings."""
        return rows(self.text)


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


def read(name: str) -> str:
    """A page by its name below ``docs``."""
    return (ROOT / "docs" / name).read_text()


def blocks(language: str) -> list[Block]:
    """All fenced blocks of a language."""
    return [
        Block(page_id(page), match[2])
        for page in PAGES
        for match in _BLOCK.finditer(page.read_text())
        if match[1] == language
    ]


def prose(text: str) -> str:
    """A page without its fenced blocks."""
    return _BLOCK.sub("", text)


def links(page: Path) -> list[str]:
    return _LINK.findall(prose(page.read_text()))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    titles = (match[2].lower() for match in _HEADING.finditer(prose(page.read_text())))
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


def sections(text: str) -> list[Section]:
    headings = list(_HEADING.finditer(text))
    ends = [*(heading.start() for heading in headings[1:]), len(text)]
    return [Section(heading[2], text[heading.end() : end]) for heading, end in zip(headings, ends, strict=True)]


def section(text: str, title: str) -> Section:
    return next(each for each in sections(text) if each.title == title)


def rows(text: str) -> list[list[str]]:
    found: list[list[str]] = []
    head = True
    for line in text.splitlines():
        if not line.startswith("|"):
            head = True
        elif set(line) <= set("|- "):
            head = False
        elif not head:
            cells = re.split(r"(?<!\\)\|", line)[1:-1]
            found.append([cell.strip() for cell in cells])
    return found


def ticked(text: str) -> list[str]:
    """What stands in back-ticks."""
    return _TICKED.findall(text)
