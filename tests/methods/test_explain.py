"""explain: what it takes, what it gives, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import heedful
from heedful.core.errors import BadInput, Unsupported
from heedful.core.explanation import Explanation, Explanations, Interaction
from heedful.core.tokens import Tokens
from heedful.methods import METHODS, method
from heedful.methods.explain import Step, explain, explain_all, tree
from heedful.methods.gradient import IntegratedGradients
from tests.support import models
from tests.support.models import shared

TEXTS = list(models.TEXTS)
LONG = "film " * 100


# what is explained


def test_what_load_takes_is_taken(tmp_path: Path) -> None:
    classifier = shared("bert")
    classifier.model.save_pretrained(tmp_path)
    classifier.tokenizer.save_pretrained(tmp_path)
    pipeline = SimpleNamespace(model=classifier.model, tokenizer=classifier.tokenizer)
    pair = (classifier.model, classifier.tokenizer)
    expected = explain(classifier, TEXTS[0], "gradient-l2").to_dict()["scores"]
    for x in (str(tmp_path), tmp_path, pipeline, pair):
        assert explain(x, TEXTS[0], "gradient-l2").to_dict()["scores"] == pytest.approx(expected, abs=1e-6)


def test_a_model_may_come_with_its_tokenizer() -> None:
    classifier = shared("bert")
    found = explain(classifier.model, TEXTS[0], "gradient-l2", tokenizer=classifier.tokenizer)
    assert found.to_dict()["scores"] == explain(classifier, TEXTS[0], "gradient-l2").to_dict()["scores"]


def test_a_tuple_is_a_pair_and_a_list_is_several_texts() -> None:
    classifier = shared("bert")
    pair = explain(classifier, (TEXTS[0], TEXTS[1]), "uniform")
    mixed: list[str | tuple[str, str]] = [TEXTS[0], (TEXTS[0], TEXTS[1])]
    several = explain(classifier, mixed, "uniform")
    assert pair == explain(classifier, TEXTS[0], "uniform", pair=TEXTS[1])
    assert [why.tokens.pair for why in several] == [None, TEXTS[1]]


@pytest.mark.parametrize(
    ("text", "pair", "message"),
    [
        (("a", "b", "c"), None, "is not a text or a .text, pair. of two texts; give several texts as a list"),
        (3, None, "3 is not a text"),
        (["a", 3], None, "3 is not a text"),
        (["a", "b"], "c", "pair is for one text"),
    ],
)
def test_what_is_no_text_is_refused(text: Any, pair: str | None, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        explain(shared("bert"), text, "uniform", pair=pair)


# settings


def test_settings_of_the_named_method_may_be_keywords() -> None:
    classifier = shared("bert")
    found = explain(classifier, TEXTS[0], "ig", steps=5, baseline="zero")
    assert found == explain(classifier, TEXTS[0], IntegratedGradients(steps=5, baseline="zero"))
    assert list(explain_all(classifier, TEXTS[:1], "ig", steps=5, baseline="zero")) == [found]


@pytest.mark.parametrize(
    ("how", "given", "message"),
    [
        ("ig", {"stpes": 5}, "^explain with integrated-gradients has no argument 'stpes'; did you mean 'steps'?"),
        ("ig", {"truncat": True}, "has no argument 'truncat'; did you mean 'truncate'?"),
        ("ig", {"qqq": 5}, "^integrated-gradients has no setting 'qqq'; known are: steps"),
        ("ig", {"steps": "many"}, "^steps is a whole number of at least 1, not 'many'.$"),
        (["ig", "lime"], {"steps": 5}, "^steps: keywords set one method that is given by name"),
        (IntegratedGradients(), {"steps": 5}, "^steps: keywords set one method that is given by name"),
    ],
)
def test_other_keywords_are_refused(how: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        explain(shared("bert"), TEXTS[0], how, **given)


def test_no_setting_has_the_name_of_an_argument() -> None:
    """A keyword would set the wrong one of the two."""
    from heedful.core import settings
    from heedful.methods.explain import _KEYWORDS

    assert {name for cls in METHODS.values() for name in settings.of(cls)}.isdisjoint(_KEYWORDS)


# progress


def test_watch_hears_of_each_method_and_its_passes() -> None:
    steps: list[Step] = []
    explain(shared("bert"), TEXTS[:2], ["gradient-l2", "random"], watch=steps.append)
    assert steps == [Step("gradient-l2", 1, 2, 2), Step("random", 2, 2, 0)]


# work that is shared


@pytest.mark.parametrize("texts", [TEXTS[:1], TEXTS[:3]])
def test_a_text_is_cut_and_predicted_once_for_all_methods(texts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    classifier = shared("bert")
    cut: list[str] = []
    tokens = classifier.tokens

    def spy(text: str, pair: str | None = None) -> Tokens:
        cut.append(text)
        return tokens(text, pair)

    monkeypatch.setattr(classifier, "tokens", spy)
    before = classifier.forwards
    explain(classifier, texts, ["uniform", "random", "position"])
    assert (cut, classifier.forwards - before) == (texts, len(texts))


# what a model does not support


def test_an_unsupported_method_is_raised_unless_it_may_be_skipped() -> None:
    with pytest.raises(Unsupported, match="tiny-bilstm has one query"):
        explain(shared("bilstm"), TEXTS[0], ["rollout", "random"])
    found = explain(shared("bilstm"), TEXTS[0], ["rollout", "random"], unsupported="skip")
    assert [why.method for why in found] == ["random"]
    assert list(found.skipped) == ["rollout"]
    assert "has one query" in found.skipped["rollout"]


def test_a_method_is_skipped_only_where_it_does_not_work() -> None:
    found = explain(shared("bert"), [TEXTS[0], LONG], ["attention-weights", "random"], windows=True, unsupported="skip")
    assert [(why.method, why.source.windows > 1) for why in found] == [
        ("attention-weights", False), ("random", False), ("random", True),
    ]  # fmt: skip
    assert "cannot be joined over windows" in found.skipped["attention-weights"]


def test_a_text_that_the_one_method_cannot_explain_is_skipped() -> None:
    found = explain(shared("bert"), [TEXTS[0], LONG], "attention-weights", windows=True, unsupported="skip")
    assert ([why.tokens.text for why in found], list(found.skipped)) == ([TEXTS[0]], ["attention-weights"])


def test_nothing_but_skipped_methods_is_an_error() -> None:
    with pytest.raises(Unsupported, match=r"the model supports none of the methods: .*has one query"):
        explain(shared("bilstm"), TEXTS[0], ["rollout"], unsupported="skip")


def test_a_wrong_label_is_never_skipped() -> None:
    with pytest.raises(BadInput, match="label 'graet' is not one of"):
        explain(shared("bert"), TEXTS[0], ["random"], "graet", unsupported="skip")


def test_a_wrong_choice_is_refused() -> None:
    with pytest.raises(BadInput, match=r"^unsupported 'leave' is not one of raise, skip.$"):
        explain(shared("bert"), TEXTS[0], ["random"], unsupported="leave")  # type: ignore[call-overload]


# attention beside it


def test_attention_weights_can_be_added_for_the_page_alone() -> None:
    found = explain(shared("bert"), TEXTS[0], ["random"], with_attention=True)
    assert [why.method for why in found] == ["random"]
    assert [why.method for why in found.attention] == ["attention-weights"]
    assert ("attention-weights" in found.to_html(), "attention-weights" in found.to_json()) == (True, False)


def test_attention_weights_that_were_asked_for_are_not_added_again() -> None:
    found = explain(shared("bert"), TEXTS[0], ["attention-weights"], with_attention=True)
    assert (len(found), found.attention) == (1, ())


def test_a_model_without_attention_has_a_page_all_the_same() -> None:
    found = explain(shared("fnet"), TEXTS[0], ["random"], with_attention=True)
    assert (len(found), found.attention, list(found.skipped)) == (1, (), ["attention-weights"])


def test_one_explanation_has_no_place_for_them() -> None:
    with pytest.raises(BadInput, match="give the methods as a list"):
        explain(shared("bert"), TEXTS[0], "random", with_attention=True)


# kinds of results


def test_one_of_both_gives_an_explanation_and_more_gives_explanations() -> None:
    classifier = shared("bert")
    assert isinstance(explain(classifier, TEXTS[0], "random"), Explanation)
    assert isinstance(explain(classifier, TEXTS[:1], "random"), Explanations)
    assert isinstance(explain(classifier, TEXTS[0], ["random"]), Explanations)
    assert explain(classifier, [], "random") == Explanations()


# trees


def test_a_tree_is_made_in_one_call() -> None:
    classifier = shared("bert")
    why = explain(classifier, TEXTS[0], "attattr", steps=5)
    assert isinstance(why, Interaction)
    found = tree(classifier, TEXTS[0], "exact", threshold=0.3, steps=5)
    assert found.to_json() == why.tree("exact", threshold=0.3).to_json()
    assert found.to_json() == tree(why, how="exact", threshold=0.3).to_json()
    assert heedful.tree is tree


def test_options_of_a_tree_are_refused_before_the_model_is_loaded() -> None:
    with pytest.raises(BadInput, match="threshold 2 is not between 0 and 1"):
        tree("/nowhere", TEXTS[0], threshold=2)


def test_an_interaction_has_its_own_text() -> None:
    why = explain(shared("bert"), TEXTS[0], "attention-weights")
    with pytest.raises(BadInput, match="an Interaction has its own text and settings"):
        tree(why, TEXTS[0])
    with pytest.raises(BadInput, match="or a model and a text"):
        tree(shared("bert"))


def test_a_tree_of_scores_is_refused() -> None:
    with pytest.raises(BadInput, match="Attribution has no tree; give an Interaction"):
        tree(shared("bert"), TEXTS[0], method=method("attattr-tokens", {"steps": 3}))
