"""Language models that classify by a prompt: their logits, what of the input stays, and what is refused."""

import json
import re
import warnings
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import heedful
from heedful.audits.capabilities import capabilities
from heedful.core.errors import BadInput, Unsupported
from heedful.methods.explain import cut_text
from heedful.model.loading import describe_classifier, load, restore_classifier
from heedful.model.masking import WAYS, Variants
from heedful.model.prompted import FILE, NEUTRAL, Prompt, Prompted
from tests.support import models, operating, toys
from tests.support.models import PROMPTED, TEXTS, language_model, prompted
from tests.support.parameters import mostly_thorough

CAUSAL = "prompted-gpt2"
KINDS = mostly_thorough(tuple(PROMPTED), (CAUSAL, "prompted-bert", "prompted-bart"))
LONG = {"positive": " good story", "negative": " bad", "mixed": " warm film"}


@torch.no_grad()
def by_hand(classifier: Any, ids: list[int], words: list[int], bare: Any) -> float:
    """The log-probability of some tokens after an input, one pass of the bare model for each token."""
    total = 0.0
    for i, token in enumerate(words):
        before = words[:i]
        if classifier.kind_of_model == "causal":
            row = bare(torch.tensor([ids + before])).logits[0, -1]
        elif classifier.kind_of_model == "masked":
            types = classifier.tokenizer(TEXTS[0])["token_type_ids"][:1] * len(ids)
            row = bare(torch.tensor([ids]), token_type_ids=torch.tensor([types])).logits[
                0, ids.index(classifier.tokenizer.mask_token_id)
            ]
        else:
            start = [*classifier.decoder_start, *before]
            row = bare(torch.tensor([ids]), decoder_input_ids=torch.tensor([start])).logits[0, -1]
        total += float(row.double().log_softmax(-1)[token])
    return total


def expected(classifier: Any, tokens: Any, family: str, scoring: str = "first") -> list[float]:
    bare, _ = language_model(family)
    rows = []
    for words in classifier.model.answers:
        said = words[:1] if scoring == "first" else words
        rows.append(by_hand(classifier, list(tokens.ids), said, bare) / (len(said) if scoring == "mean" else 1))
    return rows


def logits(classifier: Any, tokens: Any) -> list[float]:
    return list(classifier.predictions([tokens])[0].logits)


@pytest.mark.parametrize("family", KINDS)
def test_logits_are_log_probabilities_of_the_bare_model(family: str) -> None:
    classifier = prompted(family)
    for text in TEXTS[:2]:
        tokens = classifier.tokens(text)
        np.testing.assert_allclose(logits(classifier, tokens), expected(classifier, tokens, family), atol=1e-6)


@pytest.mark.parametrize("family", KINDS)
def test_the_same_logits_batched_and_padded(family: str) -> None:
    classifier = prompted(family)
    texts = [classifier.tokens(text) for text in (TEXTS[1], TEXTS[0], "good bad")]
    with torch.no_grad():
        together = classifier.logits(classifier.batch(texts)).double().numpy()
    np.testing.assert_allclose(together, [expected(classifier, t, family) for t in texts], atol=1e-6)


def test_the_same_logits_in_windows() -> None:
    classifier = prompted(CAUSAL)
    parts = cut_text(classifier, classifier.tokens(" ".join(TEXTS * 3)), windows=True).parts
    assert len(parts) > 1
    for part in parts:
        assert part.in_prompt[0][0] == "Review: "
        np.testing.assert_allclose(logits(classifier, part), expected(classifier, part, CAUSAL), atol=1e-6)


@pytest.mark.parametrize("scoring", ["sum", "mean"])
@pytest.mark.parametrize("family", mostly_thorough((CAUSAL, "prompted-llama", "prompted-bart"), (CAUSAL,)))
def test_whole_strings_are_scored_token_by_token(family: str, scoring: Any) -> None:
    classifier = prompted(family, verbalizer=LONG, scoring=scoring)
    assert len({len(words) for words in classifier.model.answers}) > 1
    tokens = classifier.tokens(TEXTS[0])
    np.testing.assert_allclose(logits(classifier, tokens), expected(classifier, tokens, family, scoring), atol=2e-6)


def test_an_edit_of_attention_reaches_every_token_of_a_label() -> None:
    """With attention on the first token alone, no word after it matters to any step."""
    classifier = prompted(CAUSAL, verbalizer=LONG, scoring="sum")
    batch = classifier.batch([classifier.tokens(TEXTS[0])])
    with torch.no_grad():
        usual = classifier.logits(batch)
        with classifier.attention(lambda site, w: torch.zeros_like(w).index_fill(-1, torch.tensor([0]), 1.0)):
            edited = classifier.logits(batch)
        with classifier.attention(lambda site, w: w.clone()):
            same = classifier.logits(batch)
    assert float((usual - edited).abs().min()) > 1e-3
    torch.testing.assert_close(usual, same, atol=1e-5, rtol=1e-5)


# the prompt


def test_the_input_is_the_template_with_the_text() -> None:
    classifier = prompted(CAUSAL)
    tokens = classifier.tokens(TEXTS[0])
    whole = f"Review: {TEXTS[0]} It is"
    assert list(tokens.ids) == classifier.tokenizer(whole)["input_ids"]
    assert "".join(characters for characters, _ in tokens.in_prompt) == whole
    assert tokens.surface(tokens.content[0]) == "The"


@pytest.mark.parametrize("family", KINDS)
@pytest.mark.parametrize("way", [*WAYS, "token:good"])
def test_every_masked_input_has_the_whole_prompt(family: str, way: str) -> None:
    classifier = prompted(family)
    tokens = classifier.tokens(TEXTS[0])
    keep = np.random.default_rng(0).random((20, len(tokens))) > 0.7
    prompt = [i for i, of_prompt in zip(tokens.ids, tokens.prompt, strict=True) if of_prompt]
    with suppress(BadInput):  # the tokenizer has no such token
        rows = Variants(tokens, keep, way).rows(classifier, slice(None))
        for ids, seen, length in zip(rows.ids, rows.seen, rows.lengths, strict=True):
            row = iter(ids[:length][seen[:length]].tolist())
            assert all(token in row for token in prompt)  # in this order


@pytest.mark.parametrize("name", ["attention-mean", "gradient-x-input", "relevance", "leave-one-out", "attattr-tokens"])
def test_only_the_text_has_scores(name: str) -> None:
    why = heedful.explain(prompted(CAUSAL), TEXTS[0], name)
    assert isinstance(why, heedful.Attribution)
    prompt = np.array(why.tokens.prompt)
    assert not why.scores[prompt].any()
    assert why.scores[~prompt].any()


def test_shuffled_attention_keeps_the_weights_of_the_prompt() -> None:
    from heedful.checks.interventions import Movable
    from heedful.model.edits import Site

    tokens = prompted(CAUSAL).tokens(TEXTS[0])
    n = len(tokens)
    free = Movable(tokens).keys(Site("self", 0, torch.ones(1, 1, n, n) > 0))[0, 0, 0]
    assert free.tolist() == [not of_prompt for of_prompt in tokens.prompt]


@pytest.mark.parametrize("text", ["Dull.", "👩‍👧 wow", "  spaces  ", "naïve café", "x"])
@pytest.mark.parametrize("family", mostly_thorough(tuple(PROMPTED), (CAUSAL, "prompted-bert")))
def test_words_are_those_of_the_text_alone(family: str, text: str) -> None:
    view, _ = prompted(family).tokens(text).by("word")
    plain, _ = models.shared("bert").tokens(text).by("word")
    words = [view.surface(i).strip() for i in view.content]
    assert words == [plain.surface(i).strip() for i in plain.content]


def test_the_prompt_is_one_unit_on_each_side() -> None:
    view, _ = prompted(CAUSAL).tokens(TEXTS[1]).by("word")
    assert [view.pieces[i] for i, of_prompt in enumerate(view.prompt) if of_prompt] == ["Review: ", " It is"]


def test_punctuation_joined_to_the_prompt_belongs_to_the_prompt() -> None:
    tokens = prompted("prompted-llama", template="{text}\nIt is").tokens("Dull.")
    assert tokens.in_prompt[-1] == ("\nIt is", None)
    assert heedful.Tokens.from_dict(json.loads(json.dumps(tokens.to_dict()))) == tokens


def test_a_pair_has_two_places() -> None:
    classifier = prompted("prompted-bert", template="{text}? {mask}, {pair}")
    tokens = classifier.tokens("good film", "bad story")
    assert [(characters, s) for characters, s in tokens.in_prompt if s is not None] == [
        ("good film", 0),
        ("bad story", 1),
    ]
    without = tokens.take([i for i in range(len(tokens)) if tokens.segments[i] != 0])
    np.testing.assert_allclose(logits(classifier, without), expected(classifier, without, "prompted-bert"), atol=1e-6)


@pytest.mark.parametrize("family", mostly_thorough((CAUSAL, "prompted-bert", "prompted-t5"), (CAUSAL,)))
def test_what_works_with_one_text_works_with_pairs(family: str) -> None:
    mask = "{mask}: " if family == "prompted-bert" else ""
    one, two = (
        capabilities(prompted(family, template=mask + template)) for template in ("{text} so", "{text} {pair} so")
    )
    for abilities in ("methods", "checks"):
        assert [(a.name, a.works) for a in getattr(two, abilities)] == [
            (a.name, a.works) for a in getattr(one, abilities)
        ]
    why = heedful.explain(prompted(family, template=mask + "{text} {pair} so"), ("good film", "a bad one"), "lime")
    assert isinstance(why, heedful.Attribution)
    assert {s for s, score in zip(why.tokens.segments, why.scores, strict=True) if score} == {0, 1}


def test_a_mask_in_the_text_is_not_the_answer() -> None:
    classifier = prompted("prompted-bert", template="{text} is {mask}")
    tokens = classifier.tokens("[MASK] film")
    answer = [i for i, t in enumerate(tokens.types or ()) if t >= 2]
    assert len(answer) == 1
    assert tokens.prompt[answer[0]]


def test_a_chat_is_the_tokenizers_own() -> None:
    model, tokenizer = language_model(CAUSAL)
    tokenizer = load((model, tokenizer), template="{text} so", verbalizer=models.WORDS).tokenizer
    chat = "{% for m in messages %}[{{ m.role }}] {{ m.content | trim }}\n{% endfor %}[assistant]"
    tokenizer.chat_template = chat
    try:
        classifier = load(
            (model, tokenizer), template="Rate: {text}", verbalizer=models.WORDS, chat=True, system="Be kind"
        )
        messages = [{"role": "system", "content": "Be kind"}, {"role": "user", "content": "Rate: Dull."}]
        ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        assert list(classifier.tokens("Dull.").ids) == ids
        both = Prompt("{text} or {pair}", models.WORDS, chat=True, system="Compare it with {pair}")
        with pytest.raises(BadInput, match=r"the chat has {pair} 2 times; write it in the template alone"):
            load((model, tokenizer), prompt=both)
        with pytest.raises(BadInput, match=r"the chat has {mask} 1 times; write it in the template alone"):
            load((model, tokenizer), prompt=Prompt("{text}", models.WORDS, chat=True, system="Fill {mask}"))
        tokenizer.chat_template = chat.replace("[assistant]", "[model]")
        other = load((model, tokenizer), template="Rate: {text}", verbalizer=models.WORDS, chat=True, system="Be kind")
        assert other.fingerprint != classifier.fingerprint
    finally:
        tokenizer.chat_template = None


def test_calibration_subtracts_what_labels_have_without_a_text() -> None:
    plain, calibrated = (prompted(CAUSAL, calibrate=calibrate) for calibrate in (False, True))
    rows: list[Tensor] = []
    bare, tokenizer = language_model(CAUSAL)
    for text in NEUTRAL:
        ids = tokenizer(f"Review: {text} It is")["input_ids"]
        words = [by_hand(plain, ids, tokens[:1], bare) for tokens in plain.model.answers]
        rows.append(torch.tensor(words).softmax(-1))
    prior = torch.stack(rows).mean(0).log().numpy()
    tokens = plain.tokens(TEXTS[0])
    np.testing.assert_allclose(logits(calibrated, tokens), np.array(logits(plain, tokens)) - prior, atol=1e-5)


def test_calibration_without_a_token_beside_the_text() -> None:
    calibrated = prompted(CAUSAL, template="{text}", calibrate=True)  # this tokenizer adds no special token
    words = [prompted(CAUSAL, template="{text}").tokens(text) for text in NEUTRAL[1:]]
    rows = [torch.tensor(logits(prompted(CAUSAL, template="{text}"), tokens)).softmax(-1) for tokens in words]
    np.testing.assert_allclose(calibrated.model.prior, torch.stack(rows).mean(0).log(), atol=1e-5)


def test_a_prompt_as_long_as_the_model_reads_is_refused() -> None:
    with pytest.raises(BadInput, match=r"the prompt has \d+ tokens and the model reads 64; shorten it"):
        prompted(CAUSAL, template="Review:" + " good" * 100 + " {text}", calibrate=True)
    with pytest.raises(BadInput, match="no room for text beside the prompt; shorten it"):
        heedful.explain(prompted(CAUSAL, template="Review:" + " good" * 100 + " {text}"), "good", "leave-one-out")


def test_a_prompt_that_leaves_one_token_is_explained() -> None:
    classifier = prompted(CAUSAL, template="R" + "e" * 60 + "{text}")
    tokens = classifier.tokens(" good bad film")
    room = 64 - sum(tokens.prompt)
    why = heedful.explain(classifier, " good bad film", "leave-one-out")
    assert isinstance(why, heedful.Attribution)
    assert 0 < room <= 3
    assert len(why.tokens.content) == min(room, len(tokens.content))


def test_tokens_that_the_model_does_not_have_are_refused() -> None:
    model, tokenizer = language_model(CAUSAL)
    small = type(model)(type(model.config)(**(model.config.to_dict() | {"vocab_size": 40})))
    with pytest.raises(BadInput, match=r"the tokenizer returned token id \d+, and the model .* has 40 tokens"):
        Prompted(small, tokenizer, Prompt("{text} is", models.WORDS)).tokens("a good film")


def test_int8_has_the_logits_that_the_model_gives_the_text_alone() -> None:
    model, tokenizer = language_model(CAUSAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch announces that torchao will replace it
        quantize: Any = torch.ao.quantization.quantize_dynamic
        packed = quantize(deepcopy(model), {torch.nn.Linear}, dtype=torch.qint8)
    classifier = Prompted(packed, tokenizer, Prompt("Review: {text} It is", models.WORDS))
    texts = [classifier.tokens(text) for text in (*TEXTS[:3], "good", "bad film")]
    first = [words[0] for words in classifier.model.answers]
    with torch.no_grad():
        alone = [packed(torch.tensor([t.ids])).logits[0, -1].log_softmax(-1)[first].tolist() for t in texts]
    assert [list(p.logits) for p in classifier.predictions(texts)] == alone


def test_attention_is_read_in_bf16(bf16: None) -> None:
    model, tokenizer = language_model(CAUSAL)
    classifier = Prompted(deepcopy(model).bfloat16(), tokenizer, Prompt("Review: {text} It is", models.WORDS))
    assert classifier.attention_fault is None


def test_a_language_model_fills_the_gaps_of_one_that_is_prompted(tmp_path: Path) -> None:
    model, tokenizer = language_model("prompted-bert")
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    why = heedful.explain(prompted("prompted-bert"), TEXTS[0], "occlusion", masking=f"mlm:{tmp_path}")
    assert isinstance(why, heedful.Attribution)
    assert why.scores.any()


# a common prefix


@pytest.mark.parametrize(
    "base", mostly_thorough(("gpt2", "llama", "gemma2", "mistral", "bloom", "falcon"), ("gpt2", "llama"))
)
def test_a_common_prefix_runs_once_with_the_same_logits(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import AutoModelForCausalLM

    monkeypatch.setitem(PROMPTED, "prompted", (base, AutoModelForCausalLM))
    classifier = prompted("prompted", template="good bad great awful film story music acting. Review: {text} It is")
    texts = [classifier.tokens(text) for text in ("Dull film", "good", "A warm and clever story")]
    batch = classifier.batch(texts)
    widths: list[int] = []
    model = classifier.model.language_model
    handle = model.get_input_embeddings().register_forward_hook(lambda m, args, out: widths.append(args[0].shape[1]))
    try:
        with torch.no_grad():
            whole = classifier.logits(batch)
        with classifier.fast_inference():
            widths.clear()
            shared = classifier.logits(batch)
    finally:
        handle.remove()
    torch.testing.assert_close(whole, shared, atol=1e-5, rtol=1e-5)
    assert len(widths) == 2
    assert sum(widths) == batch.ids.shape[1]


# the whole way


TOYS = {"explanation": toys.POINTER, "not explanation": toys.DEAF}


@pytest.mark.parametrize("word", mostly_thorough(tuple(TOYS), ("explanation",)))
def test_a_planted_answer_word_gives_the_verdict_of_the_pointer(word: str) -> None:
    assert operating.frequencies("prompted", TOYS[word], 30, 40)[word] == operating.SEEDS


@pytest.mark.parametrize("family", mostly_thorough((CAUSAL, "prompted-bert", "prompted-bart"), (CAUSAL,)))
def test_every_check_works(family: str) -> None:
    abilities = capabilities(prompted(family))
    facts = dict(abilities.facts)
    assert {a.name: a.reason for a in abilities.checks if not a.works} == {}
    assert "{text}" in facts["prompt"]
    assert "first token" in facts["labels scored by"]


def test_a_saved_model_keeps_its_prompt(tmp_path: Path) -> None:
    classifier = prompted(CAUSAL, scoring="sum", verbalizer=LONG)
    described = describe_classifier(classifier, tmp_path / "model")
    for again in (load(tmp_path / "model"), restore_classifier(json.loads(json.dumps(described)))):
        assert isinstance(again, Prompted)
        assert again.prompt.to_dict() == classifier.prompt.to_dict()
        assert again.fingerprint == classifier.fingerprint
        assert logits(again, again.tokens("Dull.")) == logits(classifier, classifier.tokens("Dull."))


@pytest.mark.parametrize(
    "given",
    [
        {"calibrate": True},
        {"calibrate": False, "scoring": "first"},
        {"template": "{text} It is"},
        {"verbalizer": models.WORDS, "scoring": "mean"},
        {"chat": False},
    ],
)
def test_given_settings_change_a_saved_prompt(given: dict[str, Any], tmp_path: Path) -> None:
    before = Prompt("Review: {text} It is", LONG, scoring="sum", calibrate=not given.get("calibrate", False))
    folder = saved(tmp_path, CAUSAL)
    chat = {"chat": True, "system": "Be kind."} if "chat" in given else {}
    (folder / FILE).write_text(json.dumps(before.to_dict() | chat), "utf-8")
    classifier: Any = load(folder, **given)
    assert classifier.prompt == Prompt(**(before.to_dict() | given))
    restored: Any = restore_classifier(json.loads(json.dumps(describe_classifier(classifier, tmp_path / "copy"))))
    assert (restored.prompt, restored.fingerprint) == (classifier.prompt, classifier.fingerprint)


def test_a_whole_prompt_replaces_a_saved_one(tmp_path: Path) -> None:
    folder = saved(tmp_path, CAUSAL)
    (folder / FILE).write_text(json.dumps(Prompt("Review: {text} It is", LONG, scoring="sum").to_dict()), "utf-8")
    other = Prompt("{text} is", models.WORDS)
    classifier: Any = load(folder, prompt=other)
    assert classifier.prompt == other
    with pytest.raises(BadInput, match=r"^prompt holds the whole prompt, and calibrate was given too; leave one"):
        load(folder, prompt=other, calibrate=False)


def saved(folder: Path, family: str) -> Path:
    for part in language_model(family):
        part.save_pretrained(folder)
    return folder


# what is refused


def loaded(**prompt: Any) -> Any:
    return prompted(CAUSAL, **prompt)


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ({"template": "Review:"}, r"the template has {text} 0 times; write it once"),
        ({"template": "{text} {text}"}, r"the template has {text} 2 times"),
        ({"verbalizer": {"a": " good"}}, "the verbalizer has 1 labels; give the words of at least two labels"),
        ({"verbalizer": {"a": " good", "b": ""}}, "the verbalizer has '' for 'b'"),
        ({"verbalizer": {"a": " good", "b": " good film"}}, "begin with the token.*choose words that differ there"),
        ({"verbalizer": {"a": " good", "b": " good"}, "scoring": "sum"}, "the words of 'a' and 'b' are the same"),
        (
            {"template": "{text} is ", "verbalizer": {"a": "film", "b": "bad"}},
            "joins the end of the prompt with 'film'",
        ),
        ({"template": "{text} {mask}"}, "the template has {mask}, and the model continues its input"),
        ({"scoring": "last"}, "scoring 'last' is not one of first, sum, mean"),
        ({"chat": "no"}, "chat of the prompt is 'no'; give true or false"),
        ({"calibrate": "false"}, "calibrate of the prompt is 'false'; give true or false"),
        ({"system": 5, "chat": True}, "system of the prompt is 5; give a text"),
        ({"system": "Be kind"}, "a system prompt is for chat templates"),
        ({"chat": True}, "the tokenizer has no chat template"),
    ],
)
def test_prompts_that_cannot_work_are_refused(prompt: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        loaded(**prompt)


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        (5, "the prompt is a int; give a heedful.Prompt, a mapping of its fields, or a JSON file."),
        ([], "the prompt is a list; give a heedful.Prompt, a mapping of its fields, or a JSON file."),
        ({5: "{text}"}, "a prompt has no '5'; it has template, "),
    ],
)
def test_what_is_no_prompt_is_refused(prompt: Any, message: str) -> None:
    with pytest.raises(BadInput, match=f"^{message}"):
        load(language_model(CAUSAL), prompt=prompt)


def test_masks_of_a_masked_model() -> None:
    with pytest.raises(BadInput, match=r"the template has no {mask}"):
        prompted("prompted-bert", template="{text} is")
    with pytest.raises(BadInput, match=r"the template has '\[MASK\]' itself; write {mask}, once"):
        prompted("prompted-bert", template="[MASK] {text} is {mask}")
    with pytest.raises(BadInput, match="fills one token"):
        prompted("prompted-bert", verbalizer={"a": "good story", "b": "bad"}, scoring="sum")
    with pytest.raises(BadInput, match=r"the template has no {pair}, and two texts were given"):
        prompted("prompted-bert").tokens("a", "b")


@pytest.mark.parametrize("is_decoder", [False, True])
def test_a_masked_language_model_is_no_causal_one(is_decoder: bool, tmp_path: Path) -> None:
    """Families of both kinds: the folder says which it is, not the template."""
    folder = saved(tmp_path, "prompted-bert")
    if not is_decoder:
        with pytest.raises(BadInput, match=r"^the template has no {mask}, in whose place a masked language model"):
            load(folder, template="{text} is", verbalizer=models.WORDS)
        return
    config = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"is_decoder": True, "architectures": None}))
    assert load(folder, template="{text} is", verbalizer=models.WORDS).architecture == "BertLMHeadModel"


@pytest.mark.parametrize(
    ("family", "kind"),
    [
        (CAUSAL, "a causal language model (GPT2LMHeadModel)"),
        ("prompted-t5", "an encoder-decoder language model (T5ForConditionalGeneration)"),
        ("prompted-bart", "an encoder-decoder language model (BartForConditionalGeneration)"),
    ],
)
def test_other_language_models_fill_no_mask(family: str, kind: str, tmp_path: Path) -> None:
    folder = saved(tmp_path, family)
    message = f"the template has {{mask}}, and '{folder}' is {kind}, which fills no mask; leave {{mask}} out."
    with pytest.raises(BadInput, match=f"^{re.escape(message)}$"):
        load(folder, template="{text} is {mask}", verbalizer=models.WORDS)


@pytest.mark.parametrize(
    ("family", "template"), [("bert", "{text} is"), ("bert", "It is {mask}: {text}"), ("gpt2", "{text} is")]
)
def test_a_classifier_takes_no_prompt(family: str, template: str, tmp_path: Path) -> None:
    """The weights of a causal one would pass: its head is tied to its word vectors."""
    classifier = models.shared(family)
    classifier.model.save_pretrained(tmp_path)
    classifier.tokenizer.save_pretrained(tmp_path)
    message = f"'{tmp_path}' is a classifier ({classifier.architecture}), and a prompt is for language models; give it "
    with pytest.raises(BadInput, match=f"^{re.escape(message)}without a prompt.$"):
        load(tmp_path, template=template, verbalizer=models.WORDS)


def test_a_body_without_a_language_head_is_refused(tmp_path: Path) -> None:
    model, tokenizer = language_model("prompted-bert")
    model.bert.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    message = r"has no trained weights for cls\..*; give a language model that AutoModelForMaskedLM loads\.$"
    with pytest.raises(Unsupported, match=message):
        load(tmp_path, template="It is {mask}: {text}", verbalizer=models.WORDS)


def test_a_family_without_language_models_is_refused(tmp_path: Path) -> None:
    classifier = models.shared("bert")
    classifier.model.save_pretrained(tmp_path)
    classifier.tokenizer.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "vit"}')
    message = r"^'.*' \(ViTConfig\) has no language model in transformers \(AutoModelForCausalLM\); give another\.$"
    with pytest.raises(Unsupported, match=message):
        load(tmp_path, template="{text} is", verbalizer=models.WORDS)


def test_a_language_model_without_a_prompt_is_refused_with_the_way_out(tmp_path: Path) -> None:
    model, tokenizer = language_model(CAUSAL)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(Unsupported, match="or a template and a verbalizer"):
        load(tmp_path)
    with pytest.raises(Unsupported, match="or give a template and a verbalizer, by which a language model classifies"):
        load((model, tokenizer))
    with pytest.raises(BadInput, match="the prompt has no verbalizer"):
        load(tmp_path, template="{text} is")
    with pytest.raises(BadInput, match="give the language model and its tokenizer with a prompt"):
        load(models.shared("bert"), template="{text} is", verbalizer=models.WORDS)
    file = tmp_path / "prompt.json"
    file.write_text('{"template": "{text} is", "verbaliser": {}}')
    with pytest.raises(BadInput, match="a prompt has no 'verbaliser'; did you mean 'verbalizer'"):
        load(tmp_path, prompt=file)
    file.write_text(json.dumps(Prompt("{text} is", models.WORDS).to_dict()))
    assert load(tmp_path, prompt=file).labels == tuple(models.WORDS)
