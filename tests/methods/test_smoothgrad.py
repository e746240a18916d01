"""SmoothGrad: the gradient where there is no noise, a plain loop with the same draws, and captum's in distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from captum.attr import NoiseTunnel, Saliency
from torch import Tensor, nn
from transformers.modeling_outputs import SequenceClassifierOutput

from heedful.core.errors import BadInput
from heedful.core.explanation import Attribution
from heedful.core.target import Target
from heedful.methods import gradient, method
from heedful.methods.explain import explain
from heedful.methods.gradient import SmoothGrad
from heedful.model.classifier import Classifier
from tests.methods.test_methods import attribution
from tests.support.models import TEXTS, _Config, shared, tokenizer

SHORT = "not funny but good"


@pytest.mark.parametrize(("reduce", "plain"), [
    ("l2", "gradient-l2"), ("l1", "gradient-l1"), ("x-input", "gradient-x-input"),
])  # fmt: skip
@pytest.mark.parametrize("family", ["bert", "gpt2", "bart", "bilstm"])
@pytest.mark.parametrize("through", [True, False])
def test_without_noise_it_is_the_gradient(family: str, reduce: Any, plain: str, through: bool) -> None:
    smooth = attribution(shared(family), SHORT, SmoothGrad(noise=0, reduce=reduce, through_attention=through))
    ordinary = attribution(shared(family), SHORT, method(plain, {"through_attention": through}))
    assert np.array_equal(smooth.scores, ordinary.scores)
    assert smooth.signed == ordinary.signed
    assert smooth.errors is None


def slopes_by_hand(classifier: Classifier, samples: int, seed: int, noise: float = 0.1) -> tuple[Tensor, Tensor]:
    """Word vectors [t,d] and a gradient for each sample [n,t,d], one sample at a time."""
    rng = torch.Generator().manual_seed(seed)
    vectors = classifier.model.get_input_embeddings()(torch.tensor([classifier.tokens(SHORT).ids])).detach()
    found = []
    for _ in range(samples):
        spread = noise * (vectors.max() - vectors.min())
        noisy = (vectors + spread * torch.randn(vectors.shape[1:], generator=rng)).requires_grad_()
        found.append(torch.autograd.grad(classifier.model(inputs_embeds=noisy).logits[0, 1], noisy)[0][0])
    return vectors[0], torch.stack(found)


def run(classifier: Classifier, how: SmoothGrad, seed: int = 0) -> Attribution:
    return how(classifier, classifier.tokens(SHORT), Target(1), torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("budget", [None, 20])
@pytest.mark.parametrize("reduce", ["l2", "l1", "x-input"])
@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_it_is_the_mean_gradient_at_noisy_word_vectors(
    family: str, reduce: Any, budget: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if budget:
        monkeypatch.setattr(gradient, "BUDGET", budget)
    vectors, slopes = slopes_by_hand(shared(family), 9, seed=4)
    mean = slopes.mean(0)
    twin = {"l2": mean.norm(dim=-1), "l1": mean.abs().sum(-1), "x-input": (mean * vectors).sum(-1)}[reduce]
    found = run(shared(family), SmoothGrad(samples=9, reduce=reduce), seed=4)
    assert found.scores == pytest.approx(twin.numpy(), rel=1e-4, abs=1e-6)


def test_standard_errors_are_those_of_a_mean() -> None:
    vectors, slopes = slopes_by_hand(shared("gpt2"), 9, seed=4)
    each = (slopes * vectors).sum(-1).numpy()
    found = run(shared("gpt2"), SmoothGrad(samples=9, reduce="x-input"), seed=4)
    assert found.errors == pytest.approx(each.std(0, ddof=1) / 3, rel=1e-4)
    assert found.details["samples"] == 9
    assert found.details["noise"] == pytest.approx(0.1 * float(vectors.max() - vectors.min()))


@pytest.mark.parametrize("how", [SmoothGrad(), SmoothGrad(reduce="l1"), SmoothGrad(reduce="x-input", samples=1)])
def test_a_norm_and_a_single_sample_have_no_standard_error(how: SmoothGrad) -> None:
    assert run(shared("gpt2"), how).errors is None


def test_it_is_captums_but_for_chance() -> None:
    classifier = shared("gpt2")
    vectors = classifier.model.get_input_embeddings()(torch.tensor([classifier.tokens(SHORT).ids])).detach()
    ours = run(classifier, SmoothGrad(samples=400, reduce="x-input"))

    def answer(v: Tensor) -> Tensor:
        return torch.stack([classifier.model(inputs_embeds=row[None]).logits[0, 1] for row in v])

    torch.manual_seed(0)
    tunnel = NoiseTunnel(Saliency(answer))
    mean = tunnel.attribute(
        vectors.requires_grad_(), nt_samples=400, nt_samples_batch_size=50, stdevs=ours.details["noise"], abs=False
    )
    theirs = (mean * vectors).sum(-1)[0].detach().numpy()
    assert ours.errors is not None
    assert (np.abs(ours.scores - theirs) < 5 * 2**0.5 * ours.errors).all()
    plain = attribution(classifier, SHORT, "gradient-x-input").scores
    assert (np.abs(plain - theirs) > 5 * 2**0.5 * ours.errors).any(), "the noise must matter for this test to mean much"


class Linear(nn.Module):
    """A linear head on the mean word vector."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.config = _Config(num_labels=2, id2label={0: "no", 1: "yes"})
        self.words, self.out = nn.Embedding(vocabulary, 4), nn.Linear(4, 2)

    def get_input_embeddings(self) -> nn.Embedding:
        return self.words

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None, **_: Any) -> Any:
        mask = attention_mask[..., None].to(self.words.weight.dtype)
        return SequenceClassifierOutput(logits=self.out((self.words(input_ids) * mask).sum(1) / mask.sum(1)))


def test_noise_does_not_matter_to_a_linear_model() -> None:
    torch.manual_seed(0)
    model = Linear(len(tokenizer("wordpiece")))
    classifier = Classifier(model, tokenizer("wordpiece"), name="linear")
    found = attribution(classifier, SHORT, SmoothGrad(reduce="x-input", noise=3.0))
    ids = list(found.tokens.ids)
    exact = (model.words.weight[ids] @ model.out.weight[1] / len(ids)).detach().numpy()
    assert found.scores == pytest.approx(exact, rel=1e-5, abs=1e-7)
    assert found.errors == pytest.approx(np.zeros(len(ids)), abs=1e-7)


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("family", ["bert", "bart"])
def test_passes_are_told_in_advance(family: str, noise: float) -> None:
    how = SmoothGrad(noise=noise, samples=7)
    found = explain(shared(family), TEXTS[0], how)
    told = how.passes(shared(family), found.tokens)
    assert (told.forwards, told.backwards, told.exactly) == (found.source.forwards, found.source.backwards, True)
    assert told.forwards == (7 if noise else 1)


@pytest.mark.parametrize(("settings", "words"), [
    ({"noise": -0.1}, "noise is a number of at least 0, not -0.1"),
    ({"noise": float("nan")}, "noise is a number of at least 0, not nan"),
    ({"samples": 0}, "samples is a whole number of at least 1, not 0"),
    ({"reduce": "max"}, "reduce 'max' is not one of l2, l1, x-input"),
])  # fmt: skip
def test_settings_that_mean_nothing_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        SmoothGrad(**settings)
