"""Word vectors from co-occurrences, beside loops over pairs of tokens, dense decompositions and scikit-learn."""

from __future__ import annotations

from collections import Counter
from math import log

import numpy as np
import pytest
from scipy.sparse import block_diag, csr_array
from sklearn.utils.extmath import randomized_svd

from heedful.core.arrays import Floats, Ints
from heedful.maths.cooccurrence import OVERSAMPLING, POWER_STEPS, cooccurrences, factors, ppmi

WORDS, RUN_LENGTHS = 12, (1, 9, 30, 2, 14)


@pytest.fixture
def tokens() -> Ints:
    """Words 0 … 11, some more often than others, and -1 for what is not counted."""
    return np.random.default_rng(5).geometric(0.25, sum(RUN_LENGTHS)).clip(max=WORDS) - 2


@pytest.fixture
def runs() -> Ints:
    return np.repeat(np.arange(len(RUN_LENGTHS)), RUN_LENGTHS)


def slow_counts(tokens: Ints, runs: Ints, window: int) -> Counter[tuple[int, int]]:
    n = len(tokens)
    return Counter(
        (int(tokens[i]), int(tokens[j]))
        for i in range(n)
        for j in range(n)
        if i != j and abs(i - j) <= window and runs[i] == runs[j] and min(tokens[i], tokens[j]) >= 0
    )


def slow_ppmi(counts: Counter[tuple[int, int]], smoothing: float) -> Floats:
    total = sum(counts.values())
    often: Counter[int] = Counter()
    for (word, _), n in counts.items():
        often[word] += n
    smooth = sum(n**smoothing for n in often.values())
    result = np.zeros((WORDS, WORDS))
    for (w, c), n in counts.items():
        result[w, c] = max(0.0, log((n / total) / ((often[w] / total) * (often[c] ** smoothing / smooth))))
    return result


@pytest.mark.parametrize("window", [1, 2, 5, 100])
def test_counts_are_those_of_a_loop_over_pairs_of_tokens(tokens: Ints, runs: Ints, window: int) -> None:
    twin = np.zeros((WORDS, WORDS))
    for pair, n in slow_counts(tokens, runs, window).items():
        twin[pair] = n
    np.testing.assert_array_equal(cooccurrences(tokens, runs, WORDS, window).toarray(), twin)


@pytest.mark.parametrize("smoothing", [1.0, 0.75])
def test_ppmi_is_that_of_a_loop_over_pairs_of_words(tokens: Ints, runs: Ints, smoothing: float) -> None:
    twin = slow_ppmi(slow_counts(tokens, runs, 3), smoothing)
    assert (twin > 0).any()
    found = ppmi(cooccurrences(tokens, runs, WORDS, 3), smoothing)
    np.testing.assert_allclose(found.toarray(), twin, rtol=0, atol=1e-12)


def test_independent_words_have_no_ppmi() -> None:
    often = np.array([1.0, 2.0, 5.0])
    assert ppmi(csr_array(np.outer(often, often)), 1.0).toarray() == pytest.approx(np.zeros((3, 3)), abs=1e-12)


def test_no_counts_have_no_ppmi() -> None:
    assert ppmi(csr_array((4, 4))).nnz == 0


def test_all_factors_reproduce_a_symmetric_matrix() -> None:
    """Of a positive definite matrix U = V, so that U √Σ √Σ Uᵀ is the matrix."""
    root = np.random.default_rng(0).random((40, 40))
    matrix = root @ root.T
    found = factors(csr_array(matrix), 40, np.random.default_rng(1))
    np.testing.assert_allclose(found @ found.T, matrix, rtol=0, atol=1e-9)


def test_all_factors_reproduce_the_products_of_a_ppmi_matrix(tokens: Ints, runs: Ints) -> None:
    """M Mᵀ = U Σ² Uᵀ, and the norms of the columns of U √Σ are √Σ."""
    matrix = ppmi(cooccurrences(tokens, runs, WORDS, 3))
    found = factors(matrix, WORDS, np.random.default_rng(0))
    scaled = found * np.linalg.norm(found, axis=0)
    np.testing.assert_allclose(scaled @ scaled.T, (matrix @ matrix.T).toarray(), rtol=0, atol=1e-9)


def falling(n: int, ratio: float) -> csr_array:
    """A matrix with the singular values 1, ratio, ratio², …"""
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
    return csr_array(left * ratio ** np.arange(n) @ right.T)


def test_the_largest_factors_are_numpys() -> None:
    matrix = falling(120, 0.8)
    left, values, _ = np.linalg.svd(matrix.toarray())
    found = factors(matrix, 8, np.random.default_rng(3))
    twin = (left * np.sqrt(values))[:, :8]
    np.testing.assert_allclose(np.abs(found.T @ twin), np.diag(values[:8]), rtol=0, atol=1e-9)


def test_the_singular_values_are_scikit_learns() -> None:
    """The same algorithm where it is not exact: values that fall slowly."""
    matrix = falling(300, 0.999)
    found = np.linalg.norm(factors(matrix, 8, np.random.default_rng(3)), axis=0) ** 2
    options = {"n_oversamples": OVERSAMPLING, "n_iter": POWER_STEPS, "power_iteration_normalizer": "QR"}
    _, values, _ = randomized_svd(matrix, 8, random_state=0, **options)
    np.testing.assert_allclose(found, values, rtol=0.02)
    assert found == pytest.approx(0.999 ** np.arange(8), rel=0.1)


def test_values_that_repeat_are_all_found() -> None:
    """scipy's svds misses some, and has the next value, 2, in their place."""
    block = np.array([[0, 1, 2], [1, 0, 1], [2, 1, 0.0]])
    found = factors(csr_array(block_diag([block] * 60)), 40, np.random.default_rng(0))
    assert np.linalg.norm(found, axis=0) ** 2 == pytest.approx(np.full(40, 1 + 3**0.5), rel=0.05)


def test_the_sign_of_a_column_makes_its_largest_number_positive() -> None:
    found = factors(falling(50, 0.7), 6, np.random.default_rng(0))
    assert (found[np.abs(found).argmax(0), np.arange(6)] > 0).all()


def test_signs_do_not_depend_on_the_start() -> None:
    matrix = falling(50, 0.5)
    first, second = (factors(matrix, 5, np.random.default_rng(seed)) for seed in (0, 1))
    np.testing.assert_allclose(first, second, rtol=0, atol=1e-9)


def test_the_same_start_gives_the_same_bits_of_a_matrix_of_low_rank() -> None:
    """scipy's svds does not, since it restarts from random vectors."""
    matrix = np.zeros((200, 200))
    matrix[:6, :6] = np.random.default_rng(1).random((6, 6))
    first, second = (factors(csr_array(matrix), 40, np.random.default_rng(0)) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_more_columns_than_words_are_zero() -> None:
    found = factors(falling(5, 0.5), 9, np.random.default_rng(0))
    assert found.shape == (5, 9)
    assert not found[:, 5:].any()
    assert found[:, :5].any(0).all()
