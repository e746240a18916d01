"""Zero-shot labels: transformers' own probabilities, and only the text's words are explained and removed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from transformers import ZeroShotClassificationPipeline

from heedful.cli import main
from heedful.core.arrays import Floats
from heedful.core.errors import BadInput, Unsupported
from heedful.methods.explain import explain
from heedful.model.batch import Batch
from heedful.model.classifier import Classifier
from heedful.model.inference import answers
from heedful.model.loading import describe_classifier, load, restore_classifier, save
from heedful.model.masking import Variants
from tests.support.models import TEXTS, build

LABELS = ("good film", "music", "bad acting story")
OUTPUTS = ("contradiction", "neutral", "Entailment")
HYPOTHESIS = "This story is {}."
SHORT = [text for text in TEXTS if len(text) < 60]


def entailment(family: str = "bert", outputs: tuple[str, ...] = OUTPUTS, **more: Any) -> Classifier:
    names: dict[str, Any] = {
        "id2label": dict(enumerate(outputs)),
        "label2id": {name: i for i, name in enumerate(outputs)},
    }
    return build(family, len(outputs), **names, **more)


def chances(classifier: Classifier, texts: list[str]) -> Floats:
    return np.array([p.probabilities for p in classifier.predictions([classifier.tokens(text) for text in texts])])


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("outputs", [OUTPUTS, ("entailment", "not_entailment")])
def test_probabilities_are_those_of_the_pipeline(multi_label: bool, outputs: tuple[str, ...]) -> None:
    base = entailment(outputs=outputs)
    pipe = ZeroShotClassificationPipeline(model=base.model, tokenizer=base.tokenizer)
    given = [
        pipe(text, candidate_labels=list(LABELS), hypothesis_template=HYPOTHESIS, multi_label=multi_label)
        for text in TEXTS
    ]
    expected = [[dict(zip(row["labels"], row["scores"], strict=True))[label] for label in LABELS] for row in given]
    classifier = load(pipe, zero_shot=LABELS, hypothesis=HYPOTHESIS, multi_label=multi_label)
    assert classifier.labels == LABELS
    assert np.allclose(chances(classifier, list(TEXTS)), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2", "bart", "deberta-v2", "t5"])
def test_each_logit_is_that_of_the_pair(family: str) -> None:
    """A slow twin: each text with each hypothesis through the model, one at a time, without padding."""
    base = entailment(family)
    classifier = load(base, zero_shot=LABELS)
    expected = [
        [base.predictions([base.tokens(text, f"This example is {label}.")])[0].logits[2] for label in LABELS]
        for text in SHORT
    ]
    given = [p.logits for p in classifier.predictions([classifier.tokens(text) for text in SHORT])]
    assert np.allclose(given, expected, rtol=0, atol=1e-5)
    assert np.ptp(expected) > 0.05


@pytest.mark.parametrize("family", ["bert", "gpt2", "bart"])
def test_gradients_are_those_of_the_pairs_at_the_words_of_the_text(family: str) -> None:
    more: dict[str, Any] = {"scale_embedding": True} if family == "bart" else {}
    base = entailment(family, **more)
    classifier = load(base, zero_shot=LABELS)

    def gradient(model: Classifier, batch: Batch, column: int) -> torch.Tensor:
        leaves: list[torch.Tensor] = []

        def leaf(vectors: torch.Tensor) -> torch.Tensor:
            leaves.append(vectors.detach().clone().requires_grad_())
            return leaves[-1]

        with model.embeddings(leaf):
            logits = model.logits(batch)
        assert len(leaves) == 1
        return model.gradient(logits[:, column], leaves)[0]

    texts = [classifier.tokens(text) for text in SHORT]
    batch = classifier.batch(texts)
    with torch.no_grad(), classifier.embeddings(lambda vectors: vectors.clone()):
        same = classifier.logits(batch)
    with torch.no_grad():
        assert torch.equal(same, classifier.logits(batch))
    for label, name in enumerate(LABELS):
        ours = gradient(classifier, batch, label)
        for i, tokens in enumerate(texts):
            pair = base.tokens(tokens.text, f"This example is {name}.")
            theirs = gradient(base, base.batch([pair]), 2)[0, : len(tokens)]
            assert torch.allclose(ours[i, : len(tokens)], theirs, rtol=1e-4, atol=1e-5)
            assert theirs.abs().max() > 1e-4


@pytest.mark.parametrize("way", ["delete", "mask", "attention"])
def test_only_words_of_the_text_are_removed(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    base = entailment()
    classifier = load(base, zero_shot=LABELS)
    tokens = classifier.tokens(TEXTS[0])
    keep = torch.rand(12, len(tokens), generator=torch.Generator().manual_seed(0)).numpy() > 0.5
    rest = [base.tokens(TEXTS[0], f"This example is {label}.").ids[len(tokens) :] for label in LABELS]
    seen: list[tuple[int, ...]] = []
    run = Classifier.run

    def spy(self: Classifier, batch: Batch) -> torch.Tensor:
        if self.model is base.model:
            seen.extend(tuple(ids[mask.bool()].tolist()) for ids, mask in zip(batch.ids, batch.mask, strict=True))
        return run(self, batch)

    assert (classifier.padding, classifier.mask_hides_words, classifier.fused_attention_agrees) == ("right", True, True)
    monkeypatch.setattr(Classifier, "run", spy)  # after the probes, which run texts of their own
    answers(classifier, [Variants(tokens, keep, way)])
    expected = {tuple(np.array(tokens.ids)[row | np.array(tokens.special)]) + end for row in keep for end in rest}
    if way == "mask":
        assert {ids[len(tokens) :] for ids in seen} == set(rest)
    else:
        assert set(seen) == expected


def test_words_of_the_hypotheses_have_no_scores() -> None:
    why: Any = explain(load(entailment(), zero_shot=LABELS), TEXTS[0], "integrated-gradients", "music", steps=128)
    assert " ".join(word for word, _ in why.by("word").as_list()).startswith("The film was not funny")
    assert len(why.scores) == len(entailment().tokens(TEXTS[0]))
    assert abs(why.gap) < 0.02


def test_attention_is_refused_and_named() -> None:
    classifier = load(entailment(), zero_shot=LABELS)
    reason = "the model reads the text once for each label, each time with other attention"
    with pytest.raises(Unsupported, match=f"its attention cannot be read \\({reason}\\); methods that need no"):
        explain(classifier, TEXTS[0], "attention-mean")
    with pytest.raises(BadInput, match="reads one text, not a pair; give one text"):
        classifier.tokens("a text", "another")


def test_the_longest_text_leaves_room_for_every_hypothesis() -> None:
    base = entailment()
    classifier = load(base, zero_shot=LABELS)
    longest = max(len(base.tokens("x", f"This example is {label}.")) - len(base.tokens("x")) for label in LABELS)
    assert (base.limit, classifier.limit) == (64, 64 - longest)
    chances_of_long = classifier.predictions([classifier.tokens("good film " * 60).cut(classifier.limit)])
    assert np.isfinite(chances_of_long[0].logits).all()


def test_a_hypothesis_as_long_as_the_model_reads_is_refused() -> None:
    with pytest.raises(BadInput, match=r"^the longest hypothesis has \d+ tokens and .* reads 64; shorten the label or"):
        load(entailment(), zero_shot=["good film " * 40, "bad"])


@pytest.mark.parametrize("saved", [True, False])
def test_another_process_gets_the_same_classifier(saved: bool, tmp_path: Path) -> None:
    base: Any = entailment()
    if saved:
        save(base, tmp_path / "model")
        base = tmp_path / "model"
    classifier = load(base, zero_shot=LABELS, hypothesis=HYPOTHESIS, multi_label=True)
    described = json.loads(json.dumps(describe_classifier(classifier, tmp_path / "copy")))
    again = restore_classifier(described)
    assert (tmp_path / "copy").exists() is not saved
    assert again.fingerprint == classifier.fingerprint != load(base, zero_shot=LABELS, multi_label=True).fingerprint
    assert np.array_equal(chances(again, SHORT), chances(classifier, SHORT))


def test_on_the_command_line(tmp_path: Path) -> None:
    save(entailment(), tmp_path / "model")
    model = ["--model", str(tmp_path / "model"), "--zero-shot", "music, good film", "--hypothesis", HYPOTHESIS]
    result = CliRunner().invoke(main, ["explain", SHORT[0], *model, "-M", "leave-one-out", "--json"])
    assert result.exit_code == 0, result.output
    expected = load(tmp_path / "model", zero_shot=["music", "good film"], hypothesis=HYPOTHESIS)
    why: Any = explain(expected, SHORT[0], "leave-one-out")
    assert json.loads(result.stdout)["scores"] == pytest.approx(why.scores.tolist())
    wrong = CliRunner().invoke(main, ["explain", SHORT[0], "--hypothesis", HYPOTHESIS])
    assert wrong.exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"zero_shot": "sports"}, "the zero-shot labels are the text 'sports'; give a list of names."),
        ({"zero_shot": []}, "the zero-shot labels are []; give a list of names."),
        ({"zero_shot": ["a", "a"]}, "two zero-shot labels are the same; give each once."),
        ({"zero_shot": ["a"]}, "one zero-shot label is always right; give several, or multi_label=True."),
        (
            {"zero_shot": ["a", "b"], "hypothesis": "It is so."},
            "the hypothesis 'It is so.' must have {} once, where the label goes.",
        ),
        (
            {"hypothesis": HYPOTHESIS},
            "hypothesis and multi_label are for zero-shot labels; give these too (zero_shot).",
        ),
        (
            {"zero_shot": ["a", "b"], "model": build("bert")},
            "tiny-bert has the labels LABEL_0, LABEL_1, LABEL_2; zero-shot labels need a model with 'entailment'.",
        ),
        (
            {"zero_shot": ["a"], "multi_label": True, "model": entailment(outputs=("entailment", "x", "y"))},
            "tiny-bert has the labels entailment, x, y; multi_label needs 'contradiction' too.",
        ),
    ],
)
def test_what_is_no_zero_shot_classifier_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=f"^{re.escape(message)}$"):
        load(arguments.pop("model", None) or entailment(), **arguments)


def test_a_pipeline_without_labels_and_a_tokenizer_that_joins_otherwise_are_refused() -> None:
    base = entailment()
    with pytest.raises(BadInput, match=r"^a zero-shot pipeline has no labels of its own; give them: load"):
        load(ZeroShotClassificationPipeline(model=base.model, tokenizer=base.tokenizer))
    with pytest.raises(Unsupported, match="its tokenizer does not put the tokens of a pair after those of the text"):
        load(entailment("xlnet"), zero_shot=LABELS)
