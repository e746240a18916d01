"""Imported methods: explanations computed by other programs, read from a file of JSON lines.

A line is one explanation of one text: text, method and scores; tokens or spans where the scores are not of words; pair,
label and signed are optional. Scores are mapped to the model's tokens by the characters of both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from heedful.core.errors import BadInput, nearest
from heedful.core.explanation import Attribution
from heedful.core.target import label_index
from heedful.core.tokens import check_text
from heedful.methods import METHODS, Method, Passes
from heedful.methods.imported.placement import GivenScores, TextSpan, map_scores

if TYPE_CHECKING:
    import torch

    from heedful.core.target import Target
    from heedful.core.tokens import Tokens
    from heedful.data import Example
    from heedful.model.classifier import Classifier

KEYS = ("text", "pair", "method", "scores", "tokens", "spans", "label", "signed")
MAX_NAME_LENGTH = 60  # characters
_MAX_SCORE = 1e100  # so that sums of squares stay finite
RESERVED = ("greedy", "optimum", "attention-ascending", "attention-slope", "attention-x-slope")  # rows of checks
TextKey = tuple[str, str | None]
ScoresByText = Mapping[TextKey, Sequence[GivenScores]]


@dataclass(frozen=True)
class ImportedMethod:
    """Scores that another program computed, under a name. It explains only the texts of its file.

    `fingerprint` is that of the whole file, so that a run is not resumed with another one. `again` is False: checks
    that explain a second time (another text, model or seed) would only get the same scores.
    """

    name: str
    file: str
    fingerprint: str
    # not a field: a manifest holds the fingerprint and not the scores; `replace` passes it on
    lines: InitVar[ScoresByText | None] = None

    summary: ClassVar[str] = "scores that were read from a file"
    paper: ClassVar[str] = "–"
    again: ClassVar[bool] = False

    def __post_init__(self, lines: ScoresByText | None) -> None:
        object.__setattr__(self, "lines", lines or {})
        object.__setattr__(self, "_loose", {_loose(key) for key in lines or {}})

    def passes(self, classifier: Classifier, tokens: Tokens) -> Passes:
        """No pass: the scores are read."""
        return Passes(0)

    def __call__(self, classifier: Classifier, tokens: Tokens, target: Target, rng: torch.Generator) -> Attribution:
        """The scores of this text for this label, on the model's tokens."""
        line = self._line((tokens.text, tokens.pair), target, classifier.labels)
        try:
            mapped = map_scores(line, tokens)
        except BadInput as e:
            raise BadInput(f"'{self.file}': {e}") from e
        return Attribution(tokens=tokens, scores=mapped.scores, signed=bool(line.signed), details=mapped.details)

    def knows(self, text: str, pair: str | None = None) -> bool:
        """Whether the file has an explanation of this text."""
        return (text, pair) in self._lines

    @property
    def _lines(self) -> ScoresByText:
        lines: ScoresByText = vars(self)["lines"]
        return lines

    def _line(self, key: TextKey, target: Target, labels: Sequence[str]) -> GivenScores:
        """The one line about this text and label. Errors do not quote the text, so that equal ones can be counted."""
        lines = self._lines.get(key, ())
        if not lines:
            spaces = ", only one with different white space" if _loose(key) in vars(self)["_loose"] else ""
            raise BadInput(f"'{self.file}' has no explanation of this text{spaces}.")
        fitting = [line for line in lines if line.label is None or label_index(line.label, labels) == target.label]
        if not fitting:
            raise BadInput(f"'{self.file}' explains this text for a different label than this run.")
        if len(fitting) > 1:
            raise BadInput(f"'{self.file}' explains this text twice for the same label; keep one of them.")
        return fitting[0]


def _loose(key: TextKey) -> TextKey:
    text, pair = key
    return " ".join(text.split()), None if pair is None else " ".join(pair.split())


# reading


def read(path: str | Path) -> dict[str, ImportedMethod]:
    """The methods of a file, by name, in the file's order."""
    place = Path(path).expanduser()
    try:
        raw = place.read_bytes()
    except OSError as e:
        raise BadInput(f"'{path}' cannot be read ({e.strerror or e}); give a file of explanations.") from e
    methods: dict[str, dict[TextKey, list[GivenScores]]] = {}
    for number, row in enumerate(raw.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if row.strip():
            line = _line(row, f"'{path}' line {number}")
            _add(methods.setdefault(line.method, {}).setdefault((line.text, line.pair), []), line)
    if not methods:
        raise BadInput(f"'{path}' has no explanations; write one on each line, as JSON.")
    digest = blake2b(raw, digest_size=16).hexdigest()
    return {name: ImportedMethod(name, place.name, digest, _with_sign(lines)) for name, lines in methods.items()}


def read_files(paths: Iterable[str | Path]) -> dict[str, ImportedMethod]:
    """The methods of several files; two of the same name are an error."""
    methods: dict[str, ImportedMethod] = {}
    for path in paths:
        for name, method in read(path).items():
            if name in methods:
                raise BadInput(f"method '{name}' is in '{path}' and in '{methods[name].file}'; rename one of them.")
            methods[name] = method
    return methods


def explained_examples(methods: Mapping[str, Method], examples: Sequence[Example]) -> Sequence[Example]:
    """The texts that an imported method explains; all, without such a method. A method without texts is an error."""
    imported = {name: method for name, method in methods.items() if isinstance(method, ImportedMethod)}
    for name, method in imported.items():
        if not any(method.knows(example.text, example.pair) for example in examples):
            raise BadInput(
                f"'{method.file}' has no explanation by '{name}' of any text in the data; "
                "its texts must be those of the data, character by character."
            )
    if not imported:
        return examples
    return [e for e in examples if any(method.knows(e.text, e.pair) for method in imported.values())]


def _add(lines: list[GivenScores], line: GivenScores) -> None:
    """A text may have an explanation for each label; one without a label must be the only one."""
    for other in lines:
        if None in (line.label, other.label) or str(line.label) == str(other.label):
            raise BadInput(
                f"{line.where} explains the text of line {other.where.rpartition(' ')[2]} with '{line.method}' again; "
                "keep one of them, or give each the label that it explains."
            )
    lines.append(line)


def _with_sign(lines: Mapping[TextKey, Sequence[GivenScores]]) -> ScoresByText:
    """A method's scores are signed if a line says so; without any such line, if any of them is negative."""
    every = [line for group in lines.values() for line in group]
    stated = {line.signed: line for line in every if line.signed is not None}
    if len(stated) == 2:
        raise BadInput(
            f"{stated[True].where} says that the scores of '{stated[True].method}' are signed, and "
            f"{stated[False].where} that they are not; set signed to the same value in both."
        )
    signed = next(iter(stated), any(score < 0 for line in every for score in line.scores))
    return {key: [replace(line, signed=signed) for line in group] for key, group in lines.items()}


# one line


def _line(raw: bytes, where: str) -> GivenScores:
    record = _object(raw, where)
    text, pair = record["text"], record.get("pair")
    check_text(text, f"text in {where}")
    if pair is not None:
        check_text(pair, f"pair in {where}")
    scores = _scores(record["scores"], where)
    tokens, spans, label, signed = (record.get(key) for key in ("tokens", "spans", "label", "signed"))
    if tokens is not None and spans is not None:
        raise BadInput(f"{where} has both tokens and spans; give one of them.")
    if not (label is None or type(label) is int or (isinstance(label, str) and label.strip())):
        raise BadInput(f"{where} has the label {str(label)[:40]!r}; give a name or an index.")
    if not (signed is None or isinstance(signed, bool)):
        raise BadInput(f"{where} has {str(signed)[:40]!r} for signed; give true or false.")
    method = _name(record["method"], where)
    tokens = None if tokens is None else _tokens(tokens, len(scores), where)
    spans = None if spans is None else _spans(spans, len(scores), (text, pair), where)
    return GivenScores(text, method, scores, pair, tokens, spans, label, signed, where)


def _object(raw: bytes, where: str) -> dict[str, Any]:
    try:
        record = json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as e:
        raise BadInput(f"{where} is not UTF-8; save the file as UTF-8.") from e
    except (ValueError, RecursionError) as e:
        raise BadInput(f"{where} is not JSON; write each explanation as one object on a line of its own.") from e
    if not isinstance(record, dict):
        raise BadInput(f"{where} is a {type(record).__name__}; write an object with text, method and scores.")
    for key in record:
        if key not in KEYS:
            raise BadInput(f"{where} has the unknown key '{key[:40]}'{nearest(key, KEYS) or '; remove it.'}")
    for key in ("text", "method", "scores"):
        if record.get(key) is None:
            raise BadInput(f"{where} has no {key}; give each explanation text, method and scores.")
    return record


def _name(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > MAX_NAME_LENGTH:
        raise BadInput(
            f"{where} names its method {str(value)[:40]!r}; give a name of 1 to {MAX_NAME_LENGTH} characters."
        )
    name = value.strip()
    if name in METHODS or METHODS.full_name(name) in (*METHODS, *RESERVED):
        raise BadInput(f"{where} names its method '{name}', which is heedful's own; give another, such as 'my-{name}'.")
    return name


def _scores(values: Any, where: str) -> tuple[float, ...]:
    if not isinstance(values, list) or not values:
        raise BadInput(f"{where} has scores that are not a list of numbers; give one for each token, span or word.")
    for i, score in enumerate(values):
        if isinstance(score, bool) or not isinstance(score, (int, float)) or not abs(score) < _MAX_SCORE:
            raise BadInput(f"{where} has the score {str(score)[:40]} at place {i}; give finite numbers.")
    return tuple(map(float, values))


def _tokens(values: Any, count: int, where: str) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(token, str) for token in values):
        raise BadInput(f"{where} has tokens that are not a list of strings; give the pieces that the scores are of.")
    if len(values) != count:
        raise BadInput(f"{where} has {len(values):,} tokens and {count:,} scores; give as many of both.")
    return tuple(values)


def _spans(values: Any, count: int, texts: tuple[str, str | None], where: str) -> tuple[TextSpan | None, ...]:
    if not isinstance(values, list) or len(values) != count:
        many = f"{len(values):,} spans" if isinstance(values, list) else "spans that are not a list"
        raise BadInput(f"{where} has {many} and {count:,} scores; give as many of both.")
    return tuple(_span(span, texts, where) for span in values)


def _span(value: Any, texts: tuple[str, str | None], where: str) -> TextSpan | None:
    """Tokenizers give [0, 0] to a special token."""
    if value is None or value == [0, 0]:
        return None
    whole = isinstance(value, list) and len(value) in (2, 3) and all(type(n) is int for n in value)
    start, end, segment = [*value, 0][:3] if whole else (0, -1, 0)
    source = texts[segment] if segment in (0, 1) else None
    if source is None or not 0 <= start <= end <= len(source):
        raise BadInput(
            f"{where} has the span {str(value)[:40]}; give [start, end) in characters of the text, [start, end, 1] of "
            "the pair, or null for a special token."
        )
    return start, end, segment
