"""Eight threads on one model give what one thread gives: scores, predictions, passes."""

from __future__ import annotations

import gc
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from heedful import explain, explain_all
from heedful.methods.attattr import AttAttr
from heedful.methods.counterfactual import MinimalFlip
from heedful.methods.gradient import IntegratedGradients
from heedful.methods.lime import Lime
from heedful.methods.shapley import Shapley
from heedful.model import locks
from heedful.model.classifier import Classifier
from heedful.model.edits import uniform
from heedful.model.function import Plain
from heedful.model.huggingface import tokenize
from heedful.model.inference import answers, sharing
from heedful.model.locks import lock_of
from tests.model.test_inference import asked
from tests.support.models import TEXTS, build, shared
from tests.support.parameters import mostly_thorough

THREADS = 8
FAMILIES = {
    "gradient": ("bert", IntegratedGradients(steps=4)),
    "gradient of a decoder": ("gpt2", "gradient-x-input"),
    "attention": ("bert", "attention-mean"),
    "rollout": ("bert", "attention-rollout"),
    "attattr": ("bert", AttAttr(steps=3)),
    "value-zeroing": ("bert", "value-zeroing"),
    "lime": ("bert", Lime(samples=20)),
    "shapley": ("bert", Shapley(samples=20, exact_up_to=0)),
    "leave-one-out": ("gpt2", "leave-one-out"),
    "counterfactual": ("bert", MinimalFlip(tries=20)),
    "theory": ("multihead", "theory-gradient"),
    "network": ("bilstm", "attention-mean"),
    "control": ("bert", "random"),
}
MECHANISMS = ("gradient", "attention", "value-zeroing", "leave-one-out", "theory", "network")  # the others combine them


@pytest.fixture(autouse=True)
def _switching_often() -> Iterator[None]:
    """Threads take turns a hundred times as often as they do, so that what can go wrong does."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-5)
    yield
    sys.setswitchinterval(before)


def in_threads(work: Callable[[int], Any], jobs: int) -> list[Any]:
    """Each job in one of eight threads that start together."""
    start = threading.Barrier(THREADS, timeout=120)
    with ThreadPoolExecutor(THREADS, initializer=start.wait) as pool:
        return list(pool.map(work, range(jobs)))


@pytest.mark.parametrize(
    ("family", "method"), mostly_thorough(FAMILIES.values(), [FAMILIES[name] for name in MECHANISMS]), ids=FAMILIES
)
def test_threads_give_the_numbers_of_one_thread(family: str, method: Any) -> None:
    texts = [TEXTS[i % len(TEXTS)] for i in range(THREADS)]

    def work(classifier: Classifier) -> Callable[[int], Any]:
        return lambda i: explain(classifier, texts[i], method, seed=i).to_json()

    alone = [work(build(family))(i) for i in range(len(texts))]
    assert in_threads(work(build(family)), len(texts)) == alone  # the model's first use is in threads, too


def test_different_methods_at_once_give_the_numbers_of_one_thread() -> None:
    kinds = ["gradient-x-input", "attention-mean", "leave-one-out", "value-zeroing", "attention-rollout", "random"]

    def work(classifier: Classifier) -> Callable[[int], Any]:
        return lambda i: explain(classifier, TEXTS[i % 4], kinds[i % len(kinds)]).to_json()

    alone = [work(build("bert"))(i) for i in range(24)]
    assert in_threads(work(build("bert")), 24) == alone


def test_explain_all_in_threads_gives_the_numbers_of_one_thread() -> None:
    kinds = ["gradient-x-input", "attention-mean", "leave-one-out"]

    def work(classifier: Classifier) -> Callable[[int], Any]:
        return lambda i: [[why.to_json() for why in row] for row in explain_all(classifier, TEXTS, kinds)]

    alone = work(build("gpt2"))(0)
    assert in_threads(work(build("gpt2")), THREADS) == [alone] * THREADS


def test_classifiers_around_one_model_wait_for_each_other() -> None:
    first = build("bert")
    several = [Classifier(first.model, first.tokenizer, name=first.name) for _ in range(THREADS)]

    def work(i: int) -> Any:
        return explain(several[i], TEXTS[i % 4], "attention-mean" if i % 2 else "gradient-x-input").to_json()

    alone = [work(i) for i in range(THREADS)]
    assert in_threads(work, THREADS) == alone


def test_a_function_is_called_by_one_thread_at_a_time() -> None:
    inside: list[int] = []
    most: list[int] = []

    def predict(texts: list[str]) -> Any:
        inside.append(1)
        most.append(len(inside))
        chances = [[1 / (2 + len(text)), 1 - 1 / (2 + len(text))] for text in texts]
        inside.pop()
        return chances

    classifier = Plain(predict)

    def work(i: int) -> Any:
        return explain(classifier, TEXTS[i % 4], "lime" if i % 2 else "leave-one-out").to_json()

    alone = [work(i) for i in range(THREADS)]
    assert in_threads(work, THREADS) == alone
    assert max(most) == 1


def test_the_parts_of_a_classifier_can_be_used_from_threads() -> None:
    """Not only whole methods: what a caller writes with the seam, the engine and derivatives."""

    def work(classifier: Classifier) -> Callable[[int], Any]:
        def one(i: int) -> Any:
            batch = classifier.batch([classifier.tokens(TEXTS[i % 4])])
            if i % 4 == 0:
                with torch.no_grad(), classifier.attention(uniform) as seen:
                    return classifier.logits(batch).tolist(), [w.tolist() for w in seen[0].values()]
            if i % 4 == 1:
                with torch.no_grad(), classifier.embeddings(lambda vectors: vectors * 0.5):
                    return classifier.logits(batch).tolist()
            if i % 4 == 2:
                return answers(classifier, asked(classifier)).logits.tolist()
            return classifier.pooled(batch).tolist(), classifier.fingerprint

        return one

    alone = [work(build("gpt2"))(i) for i in range(24)]
    assert in_threads(work(build("gpt2")), 24) == alone


def test_what_one_thread_shares_no_other_thread_reads() -> None:
    classifier = build("bert")
    alone = answers(classifier, asked(classifier)).logits

    def work(i: int) -> Any:
        if i % 2:
            return answers(classifier, asked(classifier)).logits, 0
        with sharing(classifier):
            before = classifier.recalled
            answers(classifier, asked(classifier))
            return answers(classifier, asked(classifier)).logits, classifier.recalled - before

    result = in_threads(work, 2 * THREADS)
    assert all(torch.equal(logits, alone) for logits, _ in result)
    assert {recalled for _, recalled in result[::2]} == {answers(classifier, asked(classifier)).distinct}
    assert classifier.answered is None


def test_predictions_in_threads_are_those_of_one_thread() -> None:
    classifier, fresh = build("gpt2"), build("gpt2")
    alone = classifier.predictions([classifier.tokens(text) for text in TEXTS])

    def work(i: int) -> Any:
        return fresh.predictions([fresh.tokens(text) for text in TEXTS])

    assert in_threads(work, 4 * THREADS) == [alone] * 4 * THREADS


def test_a_tokenizer_is_used_by_one_thread_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    inside: list[int] = []
    most: list[int] = []

    def slow_read(*args: Any) -> Any:
        inside.append(1)
        time.sleep(0.002)
        most.append(len(inside))
        inside.pop()
        return tokenize(*args)

    monkeypatch.setattr("heedful.model.huggingface.tokenize", slow_read)
    in_threads(lambda i: shared("bert").tokens(TEXTS[0]), 2 * THREADS)
    assert max(most) == 1


# the lock


def test_one_lock_for_each_model() -> None:
    one, other = build("bert"), build("bert")
    assert one.lock is Classifier(one.model, one.tokenizer).lock
    assert one.lock is not other.lock


def test_the_lock_leaves_nothing_in_the_model_and_goes_with_it() -> None:
    classifier = build("bert")
    before = set(vars(classifier.model))
    with classifier.lock, classifier.lock:
        pass
    assert set(vars(classifier.model)) == before
    pickle.dumps(classifier.model)
    n = len(locks._LOCKS)
    del classifier
    gc.collect()
    assert len(locks._LOCKS) < n


def test_what_cannot_be_a_key_shares_a_lock() -> None:
    assert lock_of([]) is lock_of([])


def test_the_lock_is_released_after_an_error() -> None:
    classifier = shared("bert")
    with pytest.raises(RuntimeError), classifier.attention():
        raise RuntimeError

    def work(i: int) -> int:
        with classifier.lock:
            return i

    assert in_threads(work, THREADS) == list(range(THREADS))
