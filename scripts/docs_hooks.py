"""What mkdocs does besides: the order of the pages, and pages that stand at the root of the repository."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

REPOSITORY = Path(__file__).parents[1]
# Pages of the repository's root, by their place on the site.
ROOT = {"decisions.md": "DESIGN.md", "contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
NAV = [
    ("", "index.md"),
    ("", "tutorial.md"),
    ("How to", "how-to"),
    ("Middleware", "middleware"),
    ("Reference", "reference"),
    ("", "formats.md"),
    ("", "v3-savings.md"),
    ("", "speed.md"),
    ("", "comparison.md"),
    ("", "faq.md"),
    ("Project", "decisions.md"),
    ("Project", "fuzzing.md"),
    ("Project", "contributing.md"),
    ("Project", "changelog.md"),
]


def on_config(config: Any) -> Any:
    """The order of the pages; those of a folder come by their names, so that a new one needs no line here."""
    docs = Path(config["docs_dir"])
    nav: list[Any] = []
    for title, place in NAV:
        if not title:
            nav.append(place)
            continue
        pages = (
            [place]
            if place.endswith(".md")
            else [str(p.relative_to(docs)) for p in sorted((docs / place).rglob("*.md"))]
        )
        section = next((entry for entry in nav if isinstance(entry, dict) and title in entry), None)
        if section is None:
            nav.append({title: pages})
        else:
            section[title] += pages
    named = {page for entry in nav for page in (next(iter(entry.values())) if isinstance(entry, dict) else [entry])}
    nav += [str(p.relative_to(docs)) for p in sorted(docs.rglob("*.md")) if str(p.relative_to(docs)) not in named]
    config["nav"] = nav
    return config


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages of the repository's root."""
    for place, source in ROOT.items():
        files.append(File.generated(config, place, content=(REPOSITORY / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links between files of the repository, and fences with words that only the tests read."""
    markdown = re.sub(r"^( *```)(python|console)[^\n]+$", r"\1\2", markdown, flags=re.MULTILINE)
    for place, source in ROOT.items():
        markdown = re.sub(rf"\]\((?:\.\./)*{source}", f"]({place}", markdown)
    # What is not on the site stands there by its name.
    return re.sub(
        r"\[([^\]]+)\]\((?:\.\./)*((?:LICENSE|README\.md|examples/|tests/|benches/|docs/)[^)]*)\)", r"\1", markdown
    )
