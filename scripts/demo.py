"""The demo's first half: three sentences, every method that the default model supports, one page. See `make demo`."""

from __future__ import annotations

from pathlib import Path

import heedful

TEXTS = [
    "The jokes are tired, but the two leads are a delight from start to finish.",
    "I would not call it boring; I would call it two hours of my life.",
    "Not once did I look at my watch.",
]


def main() -> None:
    explanations = heedful.explain(heedful.load(), TEXTS, list(heedful.METHODS), unsupported="skip")
    out = Path("demo") / "explanations.html"
    out.parent.mkdir(exist_ok=True)
    out.write_text(explanations.to_html(), encoding="utf-8")
    print(f"Three sentences, explained by {len(explanations.by_method())} methods: {out}")
    print("Now an audit of the same model on 60 texts; it takes two or three minutes.")


if __name__ == "__main__":
    main()
