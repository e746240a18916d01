"""The adversary's network, its losses against slow twins, its training, and its files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy

from heedful.core.arrays import Ints
from heedful.core.random import seeded
from heedful.data import Example
from heedful.model.classifier import Classifier
from heedful.model.edits import Site
from heedful.model.keys import replaced_keys
from heedful.nets.training.loop import TrainingPlan, TrainingProgress
from heedful.studies.base import Texts
from heedful.studies.key_adversary import (
    Adversary,
    AdversaryJob,
    Goal,
    KeyNetwork,
    Trained,
    load_network,
    original_pass,
    other_labels,
    train_adversary,
)
from heedful.studies.outcome import TextsUsed
from tests.model.test_keys import transformer
from tests.support.models import shared

WORDS = ("good", "bad", "great", "awful", "film", "story", "music", "acting", "one", "two")
PLAN = TrainingPlan(epochs=3, lr=1e-2)


def texts(classifier: Classifier, n: int, name: str = "train") -> Texts:
    """Random texts of the toy's vocabulary, with the model's own predictions as gold labels."""
    rng = np.random.default_rng([len(name), n])
    written = [" ".join(rng.choice(WORDS, rng.integers(3, 9))) for _ in range(n)]
    tokens = tuple(classifier.tokens(text) for text in written)
    gold = np.array([classifier.labels.index(p.label) for p in classifier.predictions(tokens)])
    return Texts(tuple(Example(text) for text in written), tokens, gold, TextsUsed(name, name, n, ""))


def job(
    kind: Trained, classifier: Classifier, size: int = 4, layers: tuple[int, ...] = (0, 1), groups: int = 1
) -> AdversaryJob:
    network = KeyNetwork(16, 12, groups, seeded("network"))
    adversary = Adversary(network, Goal(kind, layers, alpha=0.7), seed=0)
    return AdversaryJob(adversary, classifier, texts(classifier, 12), texts(classifier, 6, "dev"), size, kind)


def test_the_network_is_the_formula_for_each_key_of_each_layer() -> None:
    network, keys = KeyNetwork(4, 6, 2, seeded(0)), torch.randn(3, 2, 5, 4, generator=seeded(1))
    with torch.no_grad():
        network.inner_bias.normal_(generator=seeded(2))
        made = network(keys)
        hidden = (keys[1, 1, 3] @ network.inner[1] + network.inner_bias[1, 0]).relu()
        twin = hidden @ network.outer[1] + network.outer_bias[1, 0]
    assert torch.allclose(made[1, 1, 3], twin, atol=1e-6)


def test_a_network_that_is_shared_gives_equal_keys_of_two_layers_the_same_keys() -> None:
    network, keys = KeyNetwork(4, 6, 1, seeded(0)), torch.randn(3, 1, 5, 4, generator=seeded(1))
    made = network(keys.expand(3, 2, 5, 4))
    assert torch.equal(made[:, 0], made[:, 1])


def _changed(
    job: AdversaryJob, part: Texts, i: int
) -> tuple[torch.Tensor, dict[Site, torch.Tensor], torch.Tensor, torch.Tensor, torch.Tensor, dict[Site, torch.Tensor]]:
    """One text by itself: logits, attention and keys, before and after."""
    classifier, tokens = job.classifier, part.tokens[i]
    batch = classifier.batch([tokens])
    with torch.no_grad():
        with classifier.keys() as keys, classifier.attention() as seen:
            logits = classifier.logits(batch)
        own = torch.stack(list(keys[0].values()), 1)
        new = job.model(own)
        edit = replaced_keys({0: new[:, 0], 1: new[:, 1]})
        with classifier.keys(edit), classifier.attention() as changed:
            after = classifier.logits(batch)
    return logits[0], seen[0], own[0], new[0], after[0], changed[0]


def test_the_loss_as_stated_is_that_of_each_text_by_itself() -> None:
    made = job("as-stated", transformer())
    part, losses = made.train.take(range(5)), []
    for i, gold in enumerate(part.gold):
        _, _, own, new, after, _ = _changed(made, part, i)
        cross_entropy = -np.log(np.exp(after.numpy())[gold] / np.exp(after.numpy()).sum())
        losses.append(0.7 * cross_entropy - 0.3 * np.sqrt(((own - new).numpy() ** 2).sum()))
    total = made.adversary.goal.total(*made.terms(part))
    assert float(total.detach()) == pytest.approx(np.mean(losses), rel=1e-4)


def test_the_honest_loss_is_that_of_each_text_by_itself() -> None:
    made = job("honest", transformer())
    part, losses = made.train.take(range(5)), []
    for i in range(5):
        logits, seen, _, _, after, changed = _changed(made, part, i)
        kl = entropy(logits.softmax(-1).numpy(), after.softmax(-1).numpy())
        jsd = np.mean([jensenshannon(seen[site][0], changed[site][0], axis=-1) ** 2 for site in seen])
        losses.append(0.7 * kl - 0.3 * jsd)
    total = made.adversary.goal.total(*made.terms(part))
    assert float(total.detach()) == pytest.approx(np.mean(losses), rel=1e-4)


def test_the_honest_loss_of_rows_that_are_read_counts_only_the_pooled_row_of_the_last_layer() -> None:
    classifier = shared("bert")
    made = job("honest", classifier)
    made = replace(made, adversary=replace(made.adversary, goal=replace(made.adversary.goal, rows="read")))
    part, distances = made.train.take(range(5)), []
    for i in range(5):
        _, seen, _, _, _, changed = _changed(made, part, i)
        first, last = (jensenshannon(seen[site][0], changed[site][0], axis=-1) ** 2 for site in seen)
        distances.append((first.mean() + last[:, 0].mean()) / 2)
    found = made.terms(part)[1]
    assert found is not None
    assert float(found.detach()) == pytest.approx(np.mean(distances), rel=1e-4)


def test_random_keys_do_not_depend_on_the_batch_or_on_the_models_keys() -> None:
    made = job("random-keys", transformer())
    both, single = (made.terms(made.train.take(which))[0].detach() for which in ([3, 7], [7]))
    other = made.terms(made.train.take([3]))[0].detach()
    assert float(both) == pytest.approx(float(single + other) / 2, rel=1e-4)


def test_random_keys_of_two_epochs_differ() -> None:
    made = job("random-keys", transformer())
    first, second = (float(made.terms(made.train, epoch)[0].detach()) for epoch in (0, 1))
    assert first != second


@pytest.mark.parametrize(("gold", "labels", "others"), [([0, 1], 2, [1, 0]), ([0, 1, 2], 3, [1, 2, 0])])
def test_the_other_label_is_the_next(gold: Ints, labels: int, others: list[int]) -> None:
    assert other_labels(np.array(gold), labels).tolist() == others


def test_opposite_flips_most_predictions_of_a_toy_for_texts_that_it_never_saw(tmp_path: Path) -> None:
    classifier = transformer()
    made = replace(job("opposite", classifier, size=12), train=texts(classifier, 24))
    train_adversary(made, TrainingPlan(epochs=25, lr=2e-2), tmp_path / "a.safetensors")
    adversary = replace(made.adversary, network=load_network(tmp_path / "a.safetensors", classifier.device))
    unseen = texts(classifier, 30, "test")
    original = original_pass(classifier, unseen.tokens)
    with torch.no_grad(), classifier.keys(adversary.edit(adversary.new_keys(original, unseen.tokens))):
        logits = classifier.logits(original.batch)
    assert (logits.argmax(-1).numpy() != unseen.gold).mean() >= 0.75


@pytest.mark.parametrize("kind", ["as-stated", "random-keys"])
def test_a_training_that_is_interrupted_ends_with_the_same_bytes(kind: Trained, tmp_path: Path) -> None:
    def interrupt(now: TrainingProgress) -> None:
        if now.epoch == 1 and now.step == 1:
            raise KeyboardInterrupt

    files = [tmp_path / name / "a.safetensors" for name in ("whole", "resumed")]
    whole = train_adversary(job(kind, transformer()), PLAN, files[0])
    with pytest.raises(KeyboardInterrupt):
        train_adversary(job(kind, transformer()), PLAN, files[1], interrupt)
    assert not files[1].exists()
    assert train_adversary(job(kind, transformer()), PLAN, files[1]) == whole
    assert files[0].read_bytes() == files[1].read_bytes()
    assert [path.name for path in files[1].parent.iterdir()] == ["a.safetensors"]


def test_training_chooses_the_best_epoch_and_changes_no_weight_of_the_model(tmp_path: Path) -> None:
    classifier = transformer()
    before = classifier.fingerprint
    record = train_adversary(job("honest", classifier), PLAN, tmp_path / "a.safetensors")
    scores = [row["score"] for row in record["history"]]
    assert record["best"] == 1 + int(np.argmax(scores))
    assert classifier.fingerprint == before
    assert all(p.grad is None for p in classifier.model.parameters())
