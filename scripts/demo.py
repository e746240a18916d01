"""The demo's first half: three sentences, every method that the default model supports, one page. See `make demo`."""

from __future__ import annotations

from pathlib import Path

import heedful
from heedful.report.explanations import page

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
    found = heedful.explain_all(classifier, TEXTS, supported(classifier))
    out = Path("demo") / "explanations.html"
    out.parent.mkdir(exist_ok=True)
    out.write_text(page([why for text in found for why in text]), encoding="utf-8")
    print(f"Three sentences, explained by {len(heedful.METHODS)} methods: {out}")
    print("Now an audit of the same model on 60 texts; it takes two or three minutes.")


if __name__ == "__main__":
    main()
