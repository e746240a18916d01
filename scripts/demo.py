"""The demo: three sentences explained, then the audit that says which explanations to use. See `make demo`."""

from __future__ import annotations

import os
from pathlib import Path

from rich.console import Console

import heedful
from heedful.cli import main as heedful_command
from heedful.core.files import write_files
from heedful.report.progress import progress
from heedful.report.terminal import show_explanations

TEXTS = {
    "A plain sentence": "The plot is a mess and the acting is wooden.",
    "A contrast": "The jokes are tired, but the two leads are a delight from start to finish.",
    "A negation": "I did not want it to end.",
}
SHOWN = ("attention-mean", "integrated-gradients", "leave-one-out")
OUT = Path("demo")


def main() -> None:
    console = Console(highlight=False)
    explain(console)
    audit(console)


def explain(console: Console) -> None:
    """Three methods in the terminal, every method on a page."""
    with progress() as show:
        show("explaining three sentences")
        explanations = heedful.explain(heedful.load(), list(TEXTS.values()), list(heedful.METHODS), unsupported="skip")
    for kind, one_text in zip(TEXTS, explanations.by_text(), strict=True):
        console.rule(kind, align="left")
        show_explanations([why for why in one_text if why.method in SHOWN], console)
    page = OUT / "explanations.html"
    page.parent.mkdir(exist_ok=True)
    write_files({page: explanations.to_html().encode()})
    console.print(f"\nThe three sentences, explained by {len(explanations.by_method())} methods: {page}\n")


def audit(console: Console) -> None:
    """The audit, as a command that anyone can repeat; its last line says what to use."""
    command = ["audit", "corpus", "--out", str(OUT / "audit"), "--jobs", str(min(os.cpu_count() or 1, 2)), "--restart"]
    console.rule("Which of these explanations deserve to be heeded?", align="left")
    console.print(f"$ heedful {' '.join(command)}", soft_wrap=True)
    heedful_command(command)


if __name__ == "__main__":
    main()
