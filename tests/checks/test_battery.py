"""Every check on every kind of classifier: what all of them must do, whatever they measure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful.audits.chunk import cases
from heedful.checks.base import Case, Check, Finding
from heedful.checks.erasure import RANKINGS
from heedful.core import settings
from heedful.core.errors import BadInput, HeedfulError, Unsupported
from heedful.core.finding import BOUNDS
from heedful.data import Example
from heedful.methods import Passes, method
from heedful.methods.conformance import snapshot
from heedful.model.classifier import Classifier
from heedful.model.function import Plain
from heedful.nets import Hierarchical, Transformer
from heedful.nets.hierarchical import HierarchicalShape
from heedful.nets.transformer import TransformerShape
from tests.support import models
from tests.support.parameters import mostly_thorough

FEW = {
    "attention-mean": {}, "gradient-x-input": {}, "integrated-gradients": {"steps": 4}, "leave-one-out": {},
    "random": {}, "uniform": {}, "position": {},
}  # fmt: skip
SMALL: dict[str, dict[str, Any]] = {
    "permutation": {"draws": 3, "layer_draws": 1, "head_draws": 1},
    "adversarial": {"steps": 10, "candidates": 2},
    "erasure": {"draws": 2, "orders": 3},
    "input-erasure": {"points": 4, "greedy_words": 4, "exhaustive_words": 4},
    "infidelity": {"samples": 5},
    "sensitivity": {"limit": 1},
    "randomisation": {"stages": 1},
    "stability": {"seeds": 1},
}
OF_ATTENTION = ("permutation", "uniform", "adversarial", "identifiability", "erasure")
TEXTS = {
    "text": Example(models.TEXTS[0], rationale=((8, 17), (40, 45))),
    "pair": Example("Good film.", "The story isn't awful."),
    "word": Example("Dull"),
    "long": Example(" ".join([models.TEXTS[0], models.TEXTS[2]] * 3)),  # more tokens than most of these models read
}


def han() -> Classifier:
    t = models.tokenizer("wordpiece")
    shape = HierarchicalShape(
        len(t), 3, embedding=8, hidden=4, longest=6, pad_token_id=t.pad_token_id,
        ends=tuple(t.convert_tokens_to_ids([".", ","])), special=(t.cls_token_id, t.sep_token_id, t.pad_token_id),
    )  # fmt: skip
    return Classifier(models.loud(Hierarchical(shape), scale=0.8), t, name="tiny-han")


def transformer() -> Classifier:
    t = models.tokenizer("wordpiece")
    shape = TransformerShape(
        len(t), 3, pad_token_id=t.pad_token_id, layers=2, heads=2, width=16, inner=24, max_position_embeddings=64
    )
    return Classifier(models.loud(Transformer(shape), scale=0.5), t, name="tiny-transformer")


def function() -> Classifier:
    def predict(texts: list[Any]) -> Any:
        whole = [" ".join([t] if isinstance(t, str) else t) for t in texts]
        counts = [[len(t) / 30, t.count("good") + t.count("film"), t.count("the") / 2] for t in whole]
        return torch.tensor(counts, dtype=torch.float64).softmax(-1).numpy()

    return Plain(predict, name="tiny-function")


def saturated() -> Classifier:
    made = models.build("bert")
    with torch.no_grad():
        made.model.classifier.weight.mul_(1000)
    return made


MODELS: dict[str, Callable[[], Classifier]] = {
    "bert": lambda: models.build("bert"),
    "gpt2": lambda: models.build("gpt2"),
    "bart": lambda: models.build("bart"),
    "bilstm": lambda: models.bilstm(labels=2),
    "multihead": models.multihead,
    "han": han,
    "transformer": transformer,
    "function": function,
    "ten labels": lambda: models.build("bert", labels=10),
    "a number": lambda: models.build("distilbert", labels=1, problem_type="regression"),
    "coins": lambda: models.build("distilbert", labels=4, problem_type="multi_label_classification"),
    "saturated": saturated,
    "unreadable": lambda: models.build("fnet"),
}
SHORT = ("ten labels", "a number", "coins", "saturated", "unreadable")  # two texts will do
# one of each mechanism: the attention of the others is like that of bert or bilstm, and their labels are those of bert
DEFAULT = tuple(name for name in MODELS if name not in ("bart", "multihead", "transformer", "ten labels"))
SOME = ("bert", "gpt2", "bilstm", "function")  # where what is claimed costs more
every_check = pytest.mark.parametrize("name", heedful.CHECKS)
every_model = pytest.mark.parametrize("model", mostly_thorough(MODELS, DEFAULT))
some_models = pytest.mark.parametrize("model", mostly_thorough(SOME, ("bert", "bilstm", "function")))


@dataclass(frozen=True)
class Outcome:
    """What a check made of one text, and the passes that it asked for."""

    found: tuple[Finding, ...] | HeedfulError
    forwards: int
    backwards: int


def small(name: str) -> Check:
    return heedful.check(name, SMALL.get(name))


@cache
def built(model: str) -> Classifier:
    return MODELS[model]()


def examples(classifier: Classifier) -> dict[str, Example]:
    """The texts, with a label that the model has."""
    return {name: replace(one, label=classifier.labels[-1]) for name, one in TEXTS.items()}


def cases_of(classifier: Classifier, some: Sequence[Example], seed: int = 0) -> list[Case]:
    """Cases with those methods that the model can have."""
    return list(
        cases(classifier, some, {name: method(name, given) for name, given in FEW.items()}, seed=seed).cases.values()
    )


@cache
def shared_cases(model: str) -> Mapping[str, Case]:
    some = (
        ("pair", "word")
        if model in SHORT
        else tuple(TEXTS)
        if model in ("bert", "bilstm", "han", "function")
        else ("text", "pair", "word")
    )
    wanted = {text: examples(built(model))[text] for text in some}
    return dict(zip(wanted, cases_of(built(model), list(wanted.values())), strict=True))


@cache
def alone(model: str) -> list[Case]:
    """Two texts, each made by itself."""
    return [cases_of(built(model), [examples(built(model))[text]])[0] for text in ("pair", "word")]


@cache
def together(model: str) -> list[Case]:
    """The same two, made in one batch and in the other order."""
    return cases_of(built(model), [examples(built(model))[text] for text in ("word", "pair")])[::-1]


def asked(check: Check, case: Case) -> Outcome:
    classifier = case.classifier
    forwards, backwards = classifier.forwards, classifier.backwards
    try:
        found: tuple[Finding, ...] | HeedfulError = tuple(check(case))
    except HeedfulError as e:
        found = e
    return Outcome(found, classifier.forwards - forwards, classifier.backwards - backwards)


@cache
def ran(name: str, model: str) -> tuple[Mapping[str, Outcome], list[str]]:
    """A check on each text by itself, and what of the model is not as it was before."""
    before = state(built(model))
    made = {text: asked(small(name), case) for text, case in shared_cases(model).items()}
    return made, [part for part, now in state(built(model)).items() if now != before[part]]


def outcomes(name: str, model: str) -> Mapping[str, Outcome]:
    return ran(name, model)[0]


@pytest.fixture(scope="module")
def tested(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """The models of this run."""
    return tuple(MODELS) if request.config.getoption("families") == "all" else DEFAULT


def findings(name: str, tested: Sequence[str]) -> list[Finding]:
    """All that a check found, with any of these models."""
    every = [one.found for model in tested for one in outcomes(name, model).values()]
    return [f for found in every if not isinstance(found, HeedfulError) for f in found]


def key(finding: Finding) -> tuple[str, str, str]:
    return finding.method, finding.measure, finding.place


def written(found: Sequence[Finding]) -> str:
    """Every digit and word of findings."""
    return json.dumps([[f.check, *key(f), repr(f.value), f.details] for f in found], sort_keys=True)


def said(found: tuple[Finding, ...] | HeedfulError) -> str:
    return str(found) if isinstance(found, HeedfulError) else written(found)


# findings


@every_model
@every_check
def test_there_are_findings_or_the_model_is_named(name: str, model: str) -> None:
    for one in outcomes(name, model).values():
        if isinstance(one.found, HeedfulError):
            assert isinstance(one.found, Unsupported)
            assert str(one.found).startswith(built(model).name)
        else:
            assert one.found or name in ("plausibility", "completeness", "agreement")


@every_check
def test_only_a_model_without_attention_weights_or_labels_is_refused(name: str, tested: tuple[str, ...]) -> None:
    refused = {
        model
        for model in tested
        for one in outcomes(name, model).values()
        if isinstance(one.found, HeedfulError) and model not in ("function", "unreadable")
    }
    assert refused == ({"a number"} if name == "erasure" else set())


@pytest.mark.parametrize("model", ["function", "unreadable"])
@every_check
def test_a_model_without_attention_is_refused_where_attention_is_asked_about(name: str, model: str) -> None:
    needs = name in OF_ATTENTION or (name, model) == ("randomisation", "function")
    assert {isinstance(one.found, Unsupported) for one in outcomes(name, model).values()} == {needs}


@every_check
def test_every_measure_is_listed_and_found_somewhere(name: str, tested: tuple[str, ...]) -> None:
    found = {f.measure for f in findings(name, tested)} - {"left out"}
    rare = {  # by integer programmes, and with other checkpoints
        "adversarial": {"tvd bound"},
        "stability": {"output change", "attention jsd", "largest attention"},
    }
    assert found == set(heedful.CHECKS[name].measures) - rare.get(name, set())


@every_check
def test_a_finding_is_a_float_of_this_check(name: str, tested: tuple[str, ...]) -> None:
    assert {(f.check, type(f.value)) for f in findings(name, tested)} == {(name, float)}


@every_check
def test_values_are_finite_or_missing(name: str, tested: tuple[str, ...]) -> None:
    assert [f for f in findings(name, tested) if np.isinf(f.value)] == []


@every_check
def test_what_is_said_of_a_text_is_json(name: str, tested: tuple[str, ...]) -> None:
    there = [[dict(f.at), dict(f.details)] for f in findings(name, tested)]
    assert json.loads(json.dumps(there, allow_nan=False)) == there


@every_check
def test_what_is_missing_for_a_reason_is_a_sentence(name: str, tested: tuple[str, ...]) -> None:
    reasons = {f.details["reason"] for f in findings(name, tested) if "reason" in f.details}
    assert [r for r in reasons if not r.strip() or "\n" in r] == []


@every_check
def test_nothing_is_found_twice(name: str, tested: tuple[str, ...]) -> None:
    for model in tested:
        for one in outcomes(name, model).values():
            keys = [] if isinstance(one.found, HeedfulError) else [key(f) for f in one.found]
            assert len(keys) == len(set(keys)), model


@every_check
def test_methods_are_those_of_the_run_or_the_checks_own(name: str, tested: tuple[str, ...]) -> None:
    own: dict[str, set[str]] = {"erasure": set(RANKINGS), "input-erasure": set(BOUNDS)}
    assert {f.method for f in findings(name, tested)} <= {"", *FEW} | own.get(name, set())


@every_check
def test_a_one_word_text_has_the_same_places_as_another(name: str) -> None:
    """A number that does not exist for a text is a NaN that is counted, not a row that is not there."""
    if name == "plausibility":
        return  # asks only about texts with a rationale
    word, text = (outcomes(name, "bert")[t].found for t in ("word", "text"))
    assert not isinstance(word, HeedfulError)
    assert not isinstance(text, HeedfulError)
    assert {key(f) for f in word} == {key(f) for f in text}


# passes


@every_check
def test_no_more_passes_are_asked_than_were_told_and_as_many_where_the_number_is_exact(
    name: str, tested: tuple[str, ...]
) -> None:
    check: Any = small(name)
    for model in tested if hasattr(check, "passes") else ():
        for text, one in outcomes(name, model).items():
            if isinstance(one.found, HeedfulError):
                continue
            case = shared_cases(model)[text]
            told: Passes = check.passes(case.classifier, case.tokens, case.methods)
            done, most = (one.forwards, one.backwards), (told.forwards, told.backwards)
            assert done == most if told.exactly else max(np.subtract(done, most)) <= 0, (model, text, done, told)


def test_every_check_tells_its_passes() -> None:
    assert [name for name in heedful.CHECKS if not hasattr(heedful.CHECKS[name], "passes")] == []


@every_check
def test_counting_passes_takes_none(name: str, tested: tuple[str, ...]) -> None:
    for model in tested:
        case = shared_cases(model)["pair"]
        before = case.classifier.forwards, case.classifier.backwards
        with suppress(Unsupported):
            getattr(small(name), "passes", lambda *_: None)(case.classifier, case.tokens, case.methods)
        assert (case.classifier.forwards, case.classifier.backwards) == before, model


# chance


@some_models
@every_check
def test_the_same_seed_gives_the_same_findings_whatever_torchs_own_chance(name: str, model: str) -> None:
    torch.manual_seed(2)
    np.random.seed(2)
    again = asked(small(name), shared_cases(model)["pair"])
    assert said(again.found) == said(outcomes(name, model)["pair"].found)


@every_check
def test_the_global_generators_are_left_alone(name: str) -> None:
    torch.manual_seed(5)
    np.random.seed(5)
    asked(small(name), shared_cases("bilstm")["pair"])
    found = float(torch.rand(())), float(np.random.rand())
    torch.manual_seed(5)
    np.random.seed(5)
    assert found == (float(torch.rand(())), float(np.random.rand()))


@pytest.mark.parametrize("name", ["permutation", "adversarial", "input-erasure", "infidelity", "randomisation"])
def test_another_seed_gives_other_numbers(name: str) -> None:
    one, other = (cases_of(built("bilstm"), [TEXTS["text"]], seed)[0] for seed in (0, 1))
    assert said(asked(small(name), one).found) != said(asked(small(name), other).found)


# company


def apart(a: Sequence[Finding], b: Sequence[Finding]) -> dict[tuple[str, str, str], float]:
    """How far the numbers of two lists of findings are from each other, where they are apart."""
    one, other = ({key(f): f.value for f in found} for found in (a, b))
    assert list(one) == list(other)
    far = {k: abs(x - other[k]) for k, x in one.items() if not (np.isnan(x) and np.isnan(other[k]))}
    return {k: d for k, d in far.items() if not d <= 1e-5 * max(1.0, abs(one[k]))}


@pytest.mark.parametrize(
    "model",  # that batches change nothing is proved for every family in tests/model/test_inference.py
    mostly_thorough(("bert", "bilstm", "function", "gpt2", "bart", "han"), ("bert", "function")),
)
@pytest.mark.parametrize("name", heedful.CHECKS)
def test_a_text_in_company_and_in_another_order_has_the_findings_it_has_alone(name: str, model: str) -> None:
    check = small(name)
    if isinstance(outcomes(name, model)["word"].found, HeedfulError):
        return
    one = [check(case) for case in alone(model)]
    other = check.many(together(model)) if hasattr(check, "many") else [check(case) for case in together(model)]
    assert [apart(a, b) for a, b in zip(one, other, strict=True)] == [{}, {}]


# the model


class PlannedError(Exception):
    """What the model raises in the tests below."""


@contextmanager
def failing(classifier: Classifier) -> Iterator[None]:
    """Inside, the last part of the model raises when it is called."""
    last = [m for m in classifier.model.modules() if not list(m.children())][-1]

    def fail(*_: Any) -> None:
        raise PlannedError

    hook = last.register_forward_pre_hook(fail)
    try:
        yield
    finally:
        hook.remove()


def state(classifier: Classifier) -> dict[str, Any]:
    own = {} if isinstance(classifier, Plain) else snapshot(classifier)
    return own | {"threads": torch.get_num_threads(), "answered": classifier.answered}


@every_check
def test_the_model_is_afterwards_as_before(name: str, tested: tuple[str, ...]) -> None:
    assert {model: changed for model in tested if (changed := ran(name, model)[1])} == {}


RUNS_NOTHING = ("agreement", "completeness", "complexity", "plausibility", "cost")


@pytest.mark.parametrize("model", mostly_thorough([m for m in SOME if m != "function"], ("bert", "bilstm")))
@pytest.mark.parametrize("name", [n for n in heedful.CHECKS if n not in RUNS_NOTHING])
def test_the_model_is_as_before_after_an_error_too(name: str, model: str) -> None:
    case = shared_cases(model)["pair"]
    outcomes(name, model)
    before = state(case.classifier)
    with failing(case.classifier), pytest.raises(PlannedError):
        small(name)(case)
    assert state(case.classifier) == before


@pytest.mark.parametrize("name", RUNS_NOTHING)
def test_what_only_compares_explanations_runs_nothing(name: str) -> None:
    with failing(built("bert")):
        assert all(one.forwards == 0 for one in [asked(small(name), c) for c in shared_cases("bert").values()])


# settings

OTHER = {
    "loss": "code",
    int: 4, float: 0.25, bool: None, "unit": "token", "axis": "rows", "level": "word", "how": "normal",
    "masking": "unk", "maskings": ["unk", "delete"], "shares": [0.3], "delta": [0.5], "activations": ["sparsemax"],
    "k": 0.5, "layer": 0, "methods": ["lime"],
}  # fmt: skip
SETTINGS = [(name, one) for name in heedful.CHECKS for one in settings.of(heedful.CHECKS[name])]


def other(name: str, setting: str) -> Any:
    """A value that is right and is not the usual one."""
    one = settings.of(heedful.CHECKS[name])[setting]
    if one.kind is bool:
        return not one.default
    return OTHER[setting] if setting in OTHER else OTHER[float if isinstance(one.default, float) else int]


@pytest.mark.parametrize(("name", "setting"), [s for s in SETTINGS if s[1] != "synonyms"])
def test_a_setting_is_kept(name: str, setting: str) -> None:
    value = other(name, setting)
    made = heedful.check(name, {setting: value})
    assert getattr(made, setting) == (tuple(value) if isinstance(value, list) else value)
    assert made != heedful.check(name)


@pytest.mark.parametrize(("name", "setting"), SETTINGS)
def test_a_setting_of_another_kind_is_refused_in_a_sentence(name: str, setting: str) -> None:
    with pytest.raises(BadInput) as e:
        heedful.check(name, {setting: {"not": "this"}})
    assert str(e.value).startswith(setting)
    assert str(e.value).endswith((".", "?"))
    assert "\n" not in str(e.value)


@every_check
def test_an_unknown_setting_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match=rf"^{name} has no setting 'smaples'"):
        heedful.check(name, {"smaples": 3})


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("permutation", {"draws": 0}),
        ("permutation", {"head_draws": -1}),
        ("permutation", {"axis": "columns"}),
        ("uniform", {"activations": ["relu"]}),
        ("adversarial", {"epsilon": -0.1}),
        ("adversarial", {"steps": -1}),
        ("adversarial", {"candidates": 0}),
        ("adversarial", {"bounded": 2.0}),
        ("adversarial", {"delta": [-0.5]}),
        ("identifiability", {"starts": -1}),
        ("erasure", {"draws": 0}),
        ("erasure", {"orders": 0}),
        ("erasure", {"layer": "some"}),
        ("input-erasure", {"maskings": []}),
        ("input-erasure", {"maskings": ["delte"]}),
        ("input-erasure", {"shares": [1.5]}),
        ("input-erasure", {"shares": []}),
        ("input-erasure", {"points": 0}),
        ("input-erasure", {"exhaustive_words": 30}),
        ("input-erasure", {"unit": "bag"}),
        ("sign", {"top": 0}),
        ("sign", {"masking": "delte"}),
        ("sign", {"unit": "phrase"}),
        ("infidelity", {"samples": 1}),
        ("agreement", {"top": 0}),
        ("complexity", {"unit": "phrase"}),
        ("sensitivity", {"limit": 0}),
        ("sensitivity", {"synonyms": "/nowhere/synonyms.txt"}),
        ("randomisation", {"stages": 0}),
        ("randomisation", {"how": "zero"}),
        ("stability", {"seeds": 0}),
        ("stability", {"factor": 1}),
        ("plausibility", {"k": 1.5}),
    ],
)
def test_a_setting_that_means_nothing_is_refused_in_a_sentence(name: str, given: dict[str, Any]) -> None:
    with pytest.raises(BadInput) as e:
        heedful.check(name, given)
    assert str(e.value).endswith((".", "?"))
    assert "\n" not in str(e.value)
