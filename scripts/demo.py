"""The demo: three sentences, every method that the default model supports, one page. `make demo` runs it."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

import heedful
from heedful.report import page
from heedful.terminal import show

TEXTS = (
    "The jokes are tired, but the two leads are a delight from start to finish.",
    "I would not call it boring; I would call it two hours of my life.",
    "Not once did I look at my watch.",
)


def supported(classifier: heedful.Classifier) -> list[str]:
    names = []
    for name in heedful.METHODS:
        try:
            heedful.explain(classifier, "Dull.", name)
            names.append(name)
        except heedful.Unsupported:  # the closed forms are about another network
            continue
    return names


def main() -> None:
    classifier = heedful.load()
    console = Console(highlight=False)
    explanations = []
    for text, found in zip(TEXTS, heedful.explain_all(classifier, TEXTS, supported(classifier)), strict=True):
        console.rule(text)
        show(found, console)
        explanations += found
    out = Path("demo") / "explanations.html"
    out.parent.mkdir(exist_ok=True)
    out.write_text(page(explanations), encoding="utf-8")
    console.print(f"\nThe page with all of this, and every attention head: {out}")


if __name__ == "__main__":
    main()
