"""The operating table of the sequential rule: how often it answers wrongly, and how many texts it takes.

Audits are simulated text by text: a, r and s of each are drawn from a population whose share of the lead is known.
They are looked at after every chunk, as `--until decided` does, by the limits for a fixed number of texts and by the
anytime-valid ones. At the share ½ every "for" is wrong, at ⅕ every "against".

    python -m tests.support.looking [AUDITS [TEXTS]]      prints the tables of docs/verdict.md
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from math import log

import numpy as np

from heedful.audits.limits import AnytimeLimits
from heedful.audits.run import CHUNK_TEXTS
from heedful.audits.verdict import Rule
from heedful.core.arrays import Bools, Floats
from heedful.maths import sequential, stats

RULE = Rule(limits="anytime")
LINE = -log(1 - RULE.level)
AUDITS, TEXTS = 2000, 960
FEWER = 10  # times fewer audits for the limits for a fixed number of texts, which are slow; 20 for the texts needed
ONCE = 64  # texts
Draw = Callable[[np.random.Generator, tuple[int, int], float], tuple[Floats, Floats, Floats]]


# populations: a, r and s [audits, texts], such that mean(a − r) is exactly `share` of mean(s − r)


def _parts(rng: np.random.Generator, size: tuple[int, int], share: float, spread: float) -> Floats:
    """Parts of the lead from 0 to 1, with this mean; most are 0 or 1 where the spread is small."""
    if share in (0, 1):
        return np.full(size, share)
    return rng.beta(spread * share, spread * (1 - share), size)


def _lead(first: float, second: float, spread: float) -> Draw:
    def draw(rng: np.random.Generator, size: tuple[int, int], share: float) -> tuple[Floats, Floats, Floats]:
        r = rng.beta(2, 8, size)
        s = r + (1 - r) * rng.beta(first, second, size)
        return r + _parts(rng, size, share, spread) * (s - r), r, s

    return draw


def _ends(rng: np.random.Generator, size: tuple[int, int], share: float) -> tuple[Floats, Floats, Floats]:
    """Removing words changes the answer wholly or not at all: in 6 of 10 texts for the reference, in 2 at random."""
    ahead = [0.6 * share + 0.2 * (1 - share), 0.2, 0.6]
    a, r, s = ((rng.random(size) < p).astype(float) for p in ahead)
    return a, r, s


def _rare(rng: np.random.Generator, size: tuple[int, int], share: float) -> tuple[Floats, Floats, Floats]:
    """Attention has more than its share on nearly all texts, and fails wholly on 1 in 40."""
    fails = rng.random(size) < 1 / 40
    s = rng.uniform(0.3, 0.9, size)
    return np.where(fails, 0, share * s / (39 / 40)), np.zeros(size), s


def _rare_gain(rng: np.random.Generator, size: tuple[int, int], share: float) -> tuple[Floats, Floats, Floats]:
    """The reverse: less than its share on nearly all texts, and all of the lead on 1 in 40."""
    wins = rng.random(size) < 1 / 40
    s = rng.uniform(0.3, 0.9, size)
    return np.where(wins, s, (share - 1 / 40) / (39 / 40) * s), np.zeros(size), s


def _labels(rng: np.random.Generator, size: tuple[int, int], share: float) -> tuple[Floats, Floats, Floats]:
    """Two labels in turn: attention has its share of the lead and 0.15 more for one, 0.15 less for the other."""
    mean = share + np.where(np.arange(size[1]) % 2, 0.15, -0.15)
    s = rng.beta(4, 4, size)
    return rng.beta(mean / 2, (1 - mean) / 2, size) * s, np.zeros(size), s


POPULATIONS: dict[str, Draw] = {
    "a wide lead": _lead(2, 2, 2),
    "a wide lead, all or none of it": _lead(2, 2, 0.2),
    "a narrow lead (0.1)": _lead(1, 7, 1),
    "a lead near 0 (0.02), skewed": _lead(0.1, 4, 0.5),
    "a lead near 1": _lead(9, 1, 1),
    "only 0 and 1": _ends,
    "1 text in 40 fails": _rare,
    "1 text in 40 succeeds": _rare_gain,
    "two labels in turn": _labels,
}


# rules: [audits, looks], whether the mean of x is above 0


def looks(texts: int) -> range:
    """The numbers of texts that are looked at: after each chunk, from the first that may decide."""
    return range(2 * CHUNK_TEXTS, texts + 1, CHUNK_TEXTS)


def fixed(x: Floats) -> Bools:
    """By the limits for a fixed number of texts, at each look by itself."""
    level = 2 * RULE.level - 1
    return np.stack([stats.mean_intervals(x[:, :n], level)[0] > 0 for n in looks(x.shape[1])], 1)


def anytime(x: Floats, low: float, capital: Callable[[Floats, float], Floats] = sequential.log_capital) -> Bools:
    """By the capital so far."""
    beyond = np.stack([np.maximum.accumulate(capital(row, low) >= LINE) for row in x])
    return beyond[:, [n - 1 for n in looks(x.shape[1])]]


def plug_in(x: Floats, low: float) -> Floats:
    """Waudby-Smith & Ramdas 2024, eq. 26: the bet is estimated from the values before."""
    u, m = (x - low) / (1 - low), -low / (1 - low)
    return np.cumsum(np.log1p(np.minimum(_plug_in_bets(u), 0.9 / m) * (u - m)))


def empirical_bernstein(x: Floats, low: float) -> Floats:
    """The same, theorem 2: the predictable plug-in empirical-Bernstein supermartingale."""
    u, m = (x - low) / (1 - low), -low / (1 - low)
    bets = np.minimum(_plug_in_bets(u), 0.5)
    t = np.arange(1, len(u) + 1)
    before = np.concatenate([[0.5], ((0.5 + np.cumsum(u)) / (t + 1))[:-1]])
    return np.cumsum(bets * (u - m) + (u - before) ** 2 * (np.log1p(-bets) + bets))


def _plug_in_bets(u: Floats) -> Floats:
    t = np.arange(1, len(u) + 1)
    mean = (0.5 + np.cumsum(u)) / (t + 1)
    variance = np.concatenate([[0.25], ((0.25 + np.cumsum((u - mean) ** 2)) / (t + 1))[:-1]])
    return np.asarray(np.sqrt(2 * LINE / (variance * t * np.log(t + 1))))


# tables


def wrong(draw: Draw, share: float, audits: int, texts: int) -> tuple[float, float, float]:
    """The share of audits with a wrong answer: fixed limits at ONCE texts, at any look, and anytime-valid ones."""
    a, r, s = draw(np.random.default_rng(0), (audits, texts), share)
    over = (a - r) - share * (s - r)
    x, low = (over, -1.0 if r.any() else -share) if share == RULE.most else (-over, -1.0)
    single = fixed(x[: max(1, audits // FEWER)])
    at = min(looks(texts).index(ONCE), single.shape[1] - 1)
    return float(single[:, at].mean()), float(single.any(1).mean()), float(anytime(x, low).any(1).mean())


def wrong_table(audits: int, texts: int) -> Iterator[str]:
    """Lines of Markdown: wrong answers in per cent, for and against."""
    heads = f"| | {ONCE} texts, one look | fixed limits, every look | anytime-valid, every look |"
    yield from (heads, "|---" * 4 + "|")
    for name, draw in POPULATIONS.items():
        pairs = zip(*(wrong(draw, share, audits, texts) for share in (RULE.most, RULE.least)), strict=True)
        yield f"| {name} | " + " | ".join(f"{100 * a:.1f}, {100 * b:.1f}" for a, b in pairs) + " |"


def taken(
    draw: Draw, share: float, audits: int, texts: int, capital: Callable[[Floats, float], Floats]
) -> tuple[str, str]:
    """The median number of texts that decide, and the number after which nine of ten audits are decided."""
    rows = draw(np.random.default_rng(1), (audits, texts), share)
    decided = np.array([_decided(*row, capital) for row in zip(*rows, strict=True)])
    return _count(np.quantile(decided, 0.5, method="higher")), _count(np.quantile(decided, 0.9, method="higher"))


def _decided(a: Floats, r: Floats, s: Floats, capital: Callable[[Floats, float], Floats]) -> float:
    limits = AnytimeLimits(a, r, s, RULE.level)

    def after(x: Floats) -> float:
        beyond = capital(x, -1.0) >= LINE
        return float(beyond.argmax() + 1) if beyond.any() else np.inf

    most, least = limits.over(RULE.most), limits.over(RULE.least)
    ends = min(after(most), after(-least), max(after(-most), after(least)))
    needed = max(ends, after(s - r))
    return next((float(n) for n in looks(len(a)) if n >= needed), np.inf)


def taken_fixed(draw: Draw, share: float, audits: int, texts: int) -> str:
    """The smallest fixed number of texts that decides nine of ten audits."""
    a, r, s = draw(np.random.default_rng(1), (audits, texts), share)
    most, least = (a - r) - RULE.most * (s - r), (a - r) - RULE.least * (s - r)
    ends = fixed(most) | fixed(-least) | (fixed(-most) & fixed(least))
    power = (ends & fixed(s - r)).mean(0)
    return _count(next((n for n, p in zip(looks(texts), power, strict=True) if p >= 0.9), np.inf))


def _count(n: float) -> str:
    return f"{n:.0f}" if np.isfinite(n) else "more"


def taken_table(audits: int, texts: int) -> Iterator[str]:
    """Lines of Markdown: texts that decide, for several true shares."""
    rules = {"mixture": sequential.log_capital, "plug-in": plug_in, "empirical Bernstein": empirical_bernstein}
    heads = ["population", "share", "fixed number", *rules]
    yield from ("| " + " | ".join(heads) + " |", "|---" * len(heads) + "|")
    for name in ("a wide lead", "a narrow lead (0.1)"):
        for share in (0.0, 0.1, 0.35, 0.6, 0.7, 0.9, 1.0):
            draw = POPULATIONS[name]
            cells = [" / ".join(taken(draw, share, audits, texts, capital)) for capital in rules.values()]
            yield f"| {name} | {share:g} | {taken_fixed(draw, share, audits, texts)} | {' | '.join(cells)} |"


def main(args: Sequence[str]) -> None:
    """Print both tables."""
    audits, texts = (*map(int, args), *(AUDITS, TEXTS)[len(args) :])
    for line in chain(wrong_table(audits, texts), [""], taken_table(max(1, audits // (2 * FEWER)), texts)):
        print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
