"""Capabilities against what explain and audit do, and a whole audit of a function from texts to probabilities."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from io import StringIO
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from rich.console import Console

import heedful
from heedful.audits.capabilities import TEXT, ZERO, Ability, Capabilities, capabilities
from heedful.audits.result import Audit
from heedful.checks import CHECKS, check
from heedful.cli import options
from heedful.cli.methods import capabilities as command
from heedful.cli.methods import show_capabilities
from heedful.core.errors import HeedfulError, Unsupported
from heedful.core.finding import CONTROLS
from heedful.core.target import Target
from heedful.data import Example
from heedful.methods import METHODS, method
from heedful.methods.conformance import snapshot
from heedful.model.classifier import Classifier
from heedful.model.function import Plain
from tests.support.models import build

WEIGHTS = {"good": 1.5, "bad": -2.0, "not": -0.7, "film": 0.2, "warm": 0.9, "short": 0.4, "read": -0.3}
TEXTS = ("good film not warm", "bad film read", "warm good read film")
MADE_FOR_OTHERS = {name for name, cls in METHODS.items() if hasattr(cls, "applies")}
BLACK_BOX = ("leave-one-out", "lime", "shapley")
ON_ATTENTION = ("permutation", "uniform", "adversarial", "identifiability", "erasure")


def bag(texts: list[str]) -> Any:
    """Probabilities whose log-odds are the sum of the words' weights."""
    odds = [sum(WEIGHTS.get(word, 0.0) for word in re.findall(r"\w+", text.lower())) for text in texts]
    chances = 1 / (1 + np.exp(-np.array(odds)))
    return np.stack([1 - chances, chances], axis=1)


class Pipeline:
    """What scikit-learn gives."""

    classes_ = np.array(["negative", "positive"])

    def predict_proba(self, texts: Sequence[str]) -> Any:
        return bag(list(texts))


@cache
def classifier(name: str) -> Classifier:
    if name == "plain":
        return Plain(bag, labels=["negative", "positive"])
    if name == "number":
        return build("bert", labels=1, problem_type="regression")
    return build(name, labels=14 if name == "gpt2" else 3)


@cache
def found(name: str) -> Capabilities:
    return capabilities(classifier(name))


def facts(name: str) -> dict[str, str]:
    return dict(found(name).facts)


def by_name(abilities: Sequence[Ability]) -> Mapping[str, Ability]:
    return {one.name: one for one in abilities}


def failing(abilities: Sequence[Ability]) -> set[str]:
    return {one.name for one in abilities if not one.works}


# methods and checks


SLOW = ("attattr", "attattr-tokens", "shapley-partition", "value-zeroing", "minimal-flip")


@cache
def explained(model: str, name: str) -> heedful.Explanation | HeedfulError:
    """The twin: with the default settings."""
    try:
        return heedful.explain(classifier(model), TEXT, name)
    except HeedfulError as e:
        return e


@pytest.mark.parametrize("model", ["bilstm", "plain"])
def test_a_method_works_where_explain_works_and_otherwise_says_the_same(model: str) -> None:
    tried = [one for one in found(model).methods if one.name not in SLOW]
    twins = [explained(model, one.name) for one in tried]
    assert [one.reason for one in tried] == [str(t) if isinstance(t, HeedfulError) else "" for t in twins]
    assert [one.works for one in tried] == [not isinstance(t, HeedfulError) for t in twins]


@pytest.mark.parametrize("model", ["bilstm", "plain"])
def test_a_method_costs_what_was_said_or_less_where_it_was_at_most(model: str) -> None:
    for one in found(model).methods:
        if one.works and one.name not in SLOW:
            why = explained(model, one.name)
            assert not isinstance(why, HeedfulError)
            said = [int(n.replace(",", "")) for n in re.findall(r"[0-9,]*[0-9]", one.passes)] or [0]
            spent = [why.source.forwards, why.source.backwards][: len(said)]
            assert said == spent or (one.passes.startswith("at most") and spent <= said), one


def test_names_are_those_of_the_catalogues_in_their_order() -> None:
    assert [one.name for one in found("fnet").methods] == list(METHODS)
    assert [one.name for one in found("fnet").checks] == list(CHECKS)


def test_a_transformer_lacks_nothing_but_what_is_made_for_other_networks() -> None:
    assert failing(found("bert").methods) == MADE_FOR_OTHERS
    assert failing(found("bert").checks) == set()


def test_checks_of_attention_need_attention() -> None:
    assert failing(found("fnet").checks) == set(ON_ATTENTION)
    assert failing(found("plain").checks) == {*ON_ATTENTION, "randomisation"}


def test_a_number_has_no_label_to_change() -> None:
    assert failing(found("number").methods) == MADE_FOR_OTHERS | {"input-reduction", "minimal-flip"}
    assert failing(found("number").checks) == {"erasure"}


@pytest.mark.parametrize("name", ["bert", "fnet", "bilstm", "plain", "number", "gpt2"])
def test_nothing_fails_unexpectedly(name: str) -> None:
    assert [one for one in (*found(name).methods, *found(name).checks) if "fails" in one.reason] == []


def test_the_model_is_as_before() -> None:
    other = build("bilstm")
    before = snapshot(other)
    capabilities(other)
    assert snapshot(other) == before
    assert other.answered is None


def test_what_is_tried_is_told() -> None:
    told: list[str] = []
    capabilities(classifier("plain"), told.append)
    assert told == [*METHODS, *CHECKS, "facts"]


@pytest.mark.parametrize("name", [name for name, cls in METHODS.items() if hasattr(cls, "probe")])
def test_the_small_settings_of_methods_are_settings(name: str) -> None:
    assert method(name, METHODS[name].probe) != method(name)


@pytest.mark.parametrize("profile", ["standard", "full"])
def test_the_settings_of_a_profile_are_settings(profile: str) -> None:
    own = {name: getattr(cls, profile) for name, cls in CHECKS.items() if hasattr(cls, profile)}
    assert all(check(name, given) != check(name) for name, given in own.items())
    assert set(own) >= ({"sensitivity", "input-erasure"} if profile == "standard" else {"permutation", "input-erasure"})


@pytest.mark.parametrize("name", [name for name, cls in CHECKS.items() if hasattr(cls, "probe")])
def test_the_small_settings_of_checks_are_settings(name: str) -> None:
    assert check(name, CHECKS[name].probe) != check(name)


# what goes wrong


@dataclass(frozen=True)
class Broken:
    def __call__(self, classifier: Any, tokens: Any, target: Any, rng: Any) -> heedful.Attribution:
        raise ZeroDivisionError("division\nby [red]zero")


@dataclass(frozen=True)
class Undefined:
    def __call__(self, classifier: Any, tokens: Any, target: Any, rng: Any) -> heedful.Attribution:
        return heedful.Attribution(tokens=tokens, scores=np.full(len(tokens), np.nan), signed=True)


@pytest.mark.parametrize(
    ("cls", "reason"),
    [
        (Broken, "fails: ZeroDivisionError: division by [red]zero"),
        (Undefined, "the method computed a score that is not finite: the model overflows."),
    ],
)
@pytest.mark.usefixtures("bugs_are_told")
def test_a_method_that_breaks_is_told_and_ends_nothing(cls: Any, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS._entries, "occlusion", cls)
    broken = capabilities(classifier("plain"))
    assert by_name(broken.methods)["occlusion"] == Ability("occlusion", False, reason)
    assert failing(broken.methods) == {"occlusion", *failing(found("plain").methods)}
    assert failing(broken.checks) == failing(found("plain").checks)


@pytest.mark.usefixtures("bugs_are_told")
def test_a_check_that_breaks_is_told_and_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise KeyError("x")

    monkeypatch.setattr(CHECKS["complexity"], "__call__", broken)
    got = capabilities(classifier("plain"))
    assert by_name(got.checks)["complexity"] == Ability("complexity", False, "fails: KeyError: 'x'")
    assert failing(got.checks) == {"complexity", *failing(found("plain").checks)}


def test_a_model_that_says_always_the_same_has_scores_of_zero() -> None:
    constant = Plain(lambda texts: np.tile([0.25, 0.75], (len(texts), 1)))
    assert by_name(capabilities(constant).methods)["leave-one-out"].reason == ZERO
    assert by_name(found("plain").methods)["leave-one-out"].reason == ""


@pytest.mark.usefixtures("bugs_are_told")
def test_a_model_that_cannot_read_the_probe_is_refused() -> None:
    def shaky(texts: list[str]) -> Any:
        if TEXT in texts:
            raise RuntimeError("shape [8, 2] is invalid")
        return bag(texts)

    with pytest.raises(Unsupported) as e:
        capabilities(Plain(shaky, name="shaky"))
    assert str(e.value) == (
        "shaky cannot predict the probe text 'A short probe. Read twice.': fails: RuntimeError: shape [8, 2] is invalid"
    )


# facts


def test_the_facts_of_a_transformer() -> None:
    parameters = sum(p.numel() for p in classifier("bert").model.parameters())
    assert facts("bert") == {
        "family": "bert (BertForSequenceClassification)",
        "parameters": f"{parameters:,} (float32)",
        "head": "softmax: one of the labels",
        "tokenizer": "fast; has mask, unk, pad",
        "labels": "3: LABEL_0, LABEL_1, LABEL_2",
        "longest text": "64 tokens",
        "padding": "right",
        "attention": "self: 2 layers × 2 heads",
        "gradients": "reach the word vectors",
        "head reads": "the first position ([CLS])",
        "masking": "delete, mask, unk, pad, attention, token:WORD",
    }


def test_the_facts_of_a_function() -> None:
    assert facts("plain") == {
        "family": "a function from texts to probabilities",
        "tokenizer": "none: the words of the text",
        "attention": "none",
        "gradients": "none",
        "labels": "2: negative, positive",
        "longest text": "any length",
        "masking": "delete, token:WORD",
        "no masking": "mask, unk, pad, attention: bag reads plain text; use masking=delete or token:WORD.",
    }


def test_the_facts_that_differ_in_a_decoder() -> None:
    assert facts("gpt2")["head reads"] == "the last position (.)"
    assert facts("gpt2")["masking"] == "delete, unk, token:WORD"
    assert facts("gpt2")["labels"].endswith("LABEL_10, LABEL_11 and 2 more")
    assert [words.split(":")[0] for fact, words in found("gpt2").facts if fact == "no masking"] == [
        "mask",
        "pad",
        "attention",
    ]


def test_what_else_a_network_may_read() -> None:
    assert facts("bilstm")["head reads"] == "the output of one attention row"
    assert facts("bilstm")["attention"] == "self: 1 layer × 1 head"
    assert facts("number")["head"] == "a number"
    assert "its attention cannot be read" in facts("fnet")["attention"]
    assert "head reads" not in facts("fnet")


# the command


def asked(*args: str) -> Result:
    return CliRunner().invoke(command, args, env={"COLUMNS": "80", "TERM": "dumb", "NO_COLOR": "1"})


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command finds the function where it would load a model."""
    monkeypatch.setattr(options, "load_model", lambda *_: classifier("plain"))


@pytest.mark.usefixtures("given")
def test_the_command_prints_what_works_before_what_does_not() -> None:
    result = asked()
    assert result.exit_code == 0, result.output
    heads = [line for line in result.stdout.splitlines() if line and not line.startswith(" ")]
    assert heads[:5] == ["bag", "10 of 33 methods work", "23 do not work", "10 of 16 checks work", "6 do not work"]
    assert max(map(len, result.stdout.splitlines())) <= 80


@pytest.mark.usefixtures("given")
def test_the_command_gives_json() -> None:
    result = asked("--json")
    assert json.loads(result.stdout) == json.loads(found("plain").to_json())
    assert json.loads(result.stdout)["methods"][0]["works"] is False


def shown(given: Capabilities) -> str:
    console = Console(width=80, record=True, file=StringIO())
    show_capabilities(given, console)
    return console.export_text()


def test_names_cannot_steer_the_terminal() -> None:
    hostile = '\x1b[2J[bold]<b>&"😀' * 9
    ability = Ability(hostile, False, f"fails: {hostile}")
    text = shown(Capabilities(hostile, (("labels", hostile),), (ability,), (Ability("x", True, hostile, "none"),)))
    assert "\x1b" not in text
    assert "[bold]<b>&" in text
    assert max(map(len, text.splitlines())) <= 80


def test_methods_that_share_a_reason_stand_together() -> None:
    assert "30 of 33 methods work" in shown(found("bert"))
    assert "\n  theory-gradient, theory-lime" in shown(found("bert"))


def test_a_reason_is_told_once_and_without_the_name_in_the_title() -> None:
    reasons = [("a", "m (Net): no layers: a has none."), ("b", "m (Net): no layers: b has none.")]
    text = shown(Capabilities("m", (), tuple(Ability(name, False, why) for name, why in reasons), ()))
    lines = [line.rstrip() for line in text.splitlines()]
    assert lines[lines.index("2 do not work") + 1 :][:2] == ["  a, b", "      no layers: the method has none."]


# a function from texts to probabilities in a whole audit


def examples() -> list[Example]:
    return [Example(text, label="negative" if "bad" in text else "positive", rationale=((0, 4),)) for text in TEXTS]


@cache
def audited() -> Audit:
    """Every method and check of a run in the profile standard."""
    return heedful.audit(classifier("plain"), examples(), profile="standard", target=Target(1, against=0))


def test_what_a_function_cannot_do_is_left_out_on_every_text_with_the_reason() -> None:
    left = {(one.check, one.method): one for one in audited().summary.left_out}
    methods = failing(found("plain").methods) & set(audited().manifest.settings["methods"])
    expected = {("explain", name) for name in methods} | {(name, "") for name in failing(found("plain").checks)}
    assert set(left) == expected
    assert {one.texts for one in left.values()} == {len(TEXTS)}
    known = by_name(found("plain").methods)
    assert all(left["explain", name].reason == known[name].reason for name in methods)


def test_every_check_that_works_has_rows_and_no_other() -> None:
    having = {name for name in CHECKS if audited().rows(name)}
    assert having == {one.name for one in found("plain").checks if one.works}


def test_no_row_is_of_a_method_that_was_left_out() -> None:
    rows = [row for name in CHECKS for row in audited().rows(name)]
    told = {str(name) for row in rows for name in (row.method, row.at.get("with", ""))}
    assert told & set(METHODS) == {*BLACK_BOX, *CONTROLS}


def test_a_sum_of_words_is_explained_alike_and_completely() -> None:
    """Log-odds that add up: leaving a word out and its Shapley value are both its weight."""
    (tau,) = [r for r in audited().rows("agreement", "tau", "leave-one-out") if r.at.get("with") == "shapley"]
    assert tau.n == len(TEXTS)
    assert tau.mean == pytest.approx(1)
    (gap,) = audited().rows("completeness", "gap", "shapley")
    assert gap.n == len(TEXTS)
    assert gap.mean == pytest.approx(0, abs=1e-9)


def test_the_method_of_an_object_is_a_function_too() -> None:
    pipeline = Plain(Pipeline().predict_proba, labels=list(Pipeline.classes_))
    one, other = (heedful.audit(c, examples(), ["leave-one-out"], ["sign"]) for c in (pipeline, classifier("plain")))
    assert one.summary == other.summary
    assert one.rows("sign")
