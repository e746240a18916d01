"""Adapters: explanations of other packages -> the lines that `heedful.methods.imported.reading` reads.

None of the packages is imported: an adapter reads the documented fields of their objects.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from heedful.core.arrays import Floats
from heedful.core.errors import BadInput
from heedful.core.files import output

JsonLines = list[dict[str, Any]]


def write(lines: Iterable[Mapping[str, Any]], path: str | Path) -> None:
    """A file that `heedful audit --explanations` reads."""
    text = "".join(json.dumps(dict(line), ensure_ascii=True, allow_nan=False) + "\n" for line in lines)
    with output(str(path), "explanations") as put:
        assert put is not None
        put(text.encode("ascii"))


# captum


def from_captum(
    text: str,
    tokens: Sequence[str],
    attributions: Any,
    method: str,
    label: str | int | None = None,
    pair: str | None = None,
) -> JsonLines:
    """Attributions of one text: a tensor or array [t], or [t, d], which is summed over d; a batch of one is allowed."""
    values = _array(attributions)
    if values.ndim > 1 and values.shape[0] == 1 and (values.ndim == 3 or values.shape[1] == len(tokens) > 1):
        values = values[0]
    if values.ndim not in (1, 2) or len(values) != len(tokens):
        raise BadInput(
            f"attributions have the shape {values.shape} for {len(tokens)} tokens; give [t] or [t, d] of one text."
        )
    scores = values.sum(1) if values.ndim == 2 else values
    return [_line(text, method, scores, label, pair) | {"tokens": [str(token) for token in tokens]}]


# shap


def from_shap(explanation: Any, method: str = "shap-package", label: str | int | None = None) -> JsonLines:
    """A `shap.Explanation` of one text or of several, with a line for each label that it has values of.

    `data` holds the parts of a text, white space included, so that together they are the text. `label` is the explained
    label where the explanation does not name it.
    """
    data, values = explanation.data, explanation.values
    if len(data) and isinstance(data[0], str):
        data, values = [data], [values]
    names = getattr(explanation, "output_names", None)
    names = label if names is None else names
    return [line for parts, scores in zip(data, values, strict=True) for line in _shap(parts, scores, names, method)]


def _shap(parts: Sequence[str], values: Any, names: Any, method: str) -> JsonLines:
    table = _array(values)
    if table.ndim not in (1, 2) or len(table) != len(parts):
        raise BadInput(f"values have the shape {table.shape} for {len(parts)} parts of a text; give one per part.")
    ends = [0, *accumulate(len(part) for part in parts)]
    where = {"spans": [[a, b] if b > a else None for a, b in pairwise(ends)]}
    text = "".join(map(str, parts))
    if table.ndim == 1:
        return [_line(text, method, table, _output(names) if isinstance(names, (str, int)) else None) | where]
    named = [_output(name) for name in names] if isinstance(names, (list, tuple, np.ndarray)) else []
    labels = named if len(named) == table.shape[1] else [*range(table.shape[1])]
    return [_line(text, method, table[:, i], label) | where for i, label in enumerate(labels)]


def _output(name: Any) -> str | int:
    """shap's own names are "Output 0", "Output 1", …."""
    if isinstance(name, int):
        return name
    number = re.fullmatch(r"Output ([0-9]+)", str(name))
    return str(name) if number is None else int(number[1])


# lime


def from_lime(
    explanation: Any, text: str | None = None, label: str | int | None = None, method: str = "lime-package"
) -> JsonLines:
    """A LIME explanation of a text, with a line for each label that it explains, or for one of them.

    The weight of a word that occurs several times is divided over its occurrences: LIME removes them together, so it
    does not score each. Words that LIME did not select have 0, as does what is between words.
    """
    string = explanation.domain_mapper.indexed_string
    if text is not None and text != string.raw_string():
        raise BadInput("the text is not the one that LIME explained; give that one, or none.")
    table: Mapping[int, Any] = explanation.as_map()
    names = explanation.class_names if explanation.mode == "classification" else None
    chosen = {index: _lime_name(names, index) for index in table} if names is not None else dict.fromkeys(table)
    if label is not None:
        chosen = {index: name for index, name in chosen.items() if label in (index, name)}
    if not chosen:
        known = ", ".join(str(index) for index in table)
        raise BadInput(f"LIME explained no label '{label}' here, but {known}; give one of them, or none for all.")
    return [_lime(string, table[index], name, method) for index, name in chosen.items()]


def _lime_name(names: Sequence[Any], index: int) -> str | int:
    """LIME's own names are the numbers."""
    name = str(names[index])
    return int(index) if name == str(index) else name


def _lime(string: Any, weights: Iterable[tuple[int, float]], label: str | int | None, method: str) -> dict[str, Any]:
    parts = [str(part) for part in string.as_list]
    ends = [0, *accumulate(map(len, parts))]
    scores = np.zeros(len(parts))
    for feature, weight in weights:
        starts = {int(start) for start in string.string_position(feature)}
        at = [i for i, start in enumerate(ends[:-1]) if start in starts]
        scores[at] = float(weight) / len(at)
    solid = [i for i, part in enumerate(parts) if part.strip()]
    spans = [[ends[i], ends[i + 1]] for i in solid]
    return _line(string.raw_string(), method, scores[solid], label) | {"spans": spans, "signed": True}


# inseq


def from_inseq(saved: str | Path | Mapping[str, Any], method: str | None = None) -> JsonLines:
    """Attributions that inseq saved, as JSON text, a file or a dict: the source's scores, summed over target steps.

    Scores per dimension are summed too. inseq itself shows their normalised norm; aggregate them so before saving to
    audit that.
    """
    whole = _opened(saved)
    info = whole.get("info") or {}
    texts = info.get("input_texts") or []
    sequences = whole.get("sequence_attributions")
    if not isinstance(sequences, list) or len(texts) != len(sequences):
        raise BadInput("this is not a file of inseq: it needs sequence_attributions, and as many info.input_texts.")
    name = method or f"inseq-{_slug(info.get('attribution_method') or 'unnamed')}"
    return [_inseq(text, sequence, name) for text, sequence in zip(texts, sequences, strict=True)]


def _opened(saved: str | Path | Mapping[str, Any]) -> dict[str, Any]:
    try:
        if isinstance(saved, Path) or (isinstance(saved, str) and not saved.lstrip().startswith("{")):
            saved = Path(saved).expanduser().read_text("utf-8")
        whole = _plain(json.loads(saved) if isinstance(saved, str) else saved)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as e:
        raise BadInput(f"this is not JSON of inseq ({type(e).__name__}); give its file, its text or a dict.") from e
    if not isinstance(whole, dict):
        raise BadInput("this is not JSON of inseq, which is an object; give its file, its text or a dict.")
    return whole


def _inseq(text: Any, sequence: Mapping[str, Any], method: str) -> dict[str, Any]:
    attributions = sequence.get("source_attributions")
    if attributions is None:
        raise BadInput("a sequence has no source_attributions; give those of an encoder-decoder.")
    values = _array(attributions)
    source = [str(token["token"] if isinstance(token, Mapping) else token) for token in sequence.get("source") or []]
    if values.ndim not in (2, 3) or len(values) != len(source):
        raise BadInput(f"attributions have the shape {values.shape} for {len(source)} source tokens; give [source, …].")
    return _line(str(text), method, values.reshape(len(source), -1).sum(1)) | {"tokens": source}


def _plain(value: Any) -> Any:
    """Classes as dicts of their attributes, and arrays as arrays; no code is imported or run."""
    if isinstance(value, Mapping):
        if "__ndarray__" in value:
            return _ndarray(value)
        if "__instance_type__" in value:
            return _plain(value.get("attributes") or {})
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _ndarray(value: Mapping[str, Any]) -> Floats:
    """Numbers in lists, or as base64 of their bytes, which may be compressed."""
    content, shape = value["__ndarray__"], tuple(int(n) for n in value["shape"])
    if not isinstance(content, str):
        return np.array(content, dtype=np.float64).reshape(shape)
    kind = np.dtype(str(value["dtype"]))
    if kind.kind not in "fiu":
        raise ValueError(f"an array of {kind}")
    head, _, body = content.partition(":")
    size = int(np.prod(shape)) * kind.itemsize
    raw = base64.b64decode(body, validate=True)
    if head == "b64.gz":
        raw = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(raw, size + 1)  # a small file may expand to any size
    order: Any = "F" if value.get("Corder") is False else "C"
    return np.frombuffer(raw, dtype=kind.newbyteorder("<")).astype(np.float64).reshape(shape, order=order)


# ferret


def from_ferret(explanation: Any, method: str | None = None) -> JsonLines:
    """A ferret Explanation, or several: text, tokens, scores, explainer, and the target that was explained."""
    explanations = explanation if isinstance(explanation, (list, tuple)) else [explanation]
    return [_ferret(item, method) for item in explanations]


def _ferret(explanation: Any, method: str | None) -> dict[str, Any]:
    target = getattr(explanation, "target", None)
    target = getattr(explanation, "target_pos_idx", None) if target is None else target
    label = None if target is None else (str(target) if isinstance(target, str) else int(target))
    tokens, scores = [str(token) for token in explanation.tokens], _array(explanation.scores)
    if scores.shape != (len(tokens),):
        raise BadInput(f"scores have the shape {scores.shape} for {len(tokens)} tokens; give one score per token.")
    name = method or f"ferret-{_slug(explanation.explainer)}"
    return _line(str(explanation.text), name, scores, label) | {"tokens": tokens}


# all


def _line(
    text: str, method: str, scores: Floats, label: str | int | None = None, pair: str | None = None
) -> dict[str, Any]:
    if not np.isfinite(scores).all():
        raise BadInput(f"{method} has a score that is not finite; explain this text again, or leave it out.")
    line: dict[str, Any] = {"text": text, "method": method, "scores": scores.tolist()}
    return line | {key: value for key, value in (("pair", pair), ("label", label)) if value is not None}


def _array(values: Any) -> Floats:
    """Numbers of a tensor on any device, of an array, or of lists."""
    plain = values.detach().cpu().double().numpy() if hasattr(values, "detach") else values
    try:
        return np.array(plain, dtype=np.float64)
    except (TypeError, ValueError) as e:
        raise BadInput(f"scores are a {type(values).__name__}; give an array or a tensor of numbers.") from e


def _slug(name: Any) -> str:
    """ "Partition SHAP" -> "partition-shap"."""
    return re.sub(r"[^a-z0-9]+", "-", str(name).casefold()).strip("-")[:40] or "unnamed"
