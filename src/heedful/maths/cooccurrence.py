"""Co-occurrence: word vectors from the texts alone, by counts of words near each other. Needs no torch."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import coo_array, csr_array

from heedful.core.arrays import Floats, Ints

OVERSAMPLING = 10  # columns beyond those asked for, as Halko et al. recommend
POWER_STEPS = 3


def cooccurrences(words: Int[Ints, "n"], runs: Int[Ints, "n"], vocabulary: int, window: int) -> csr_array:
    """How often word c is at most `window` places from word w, in the same run of tokens: [v,v], symmetric.

    `runs` numbers the run of each token, in rising order. Negative words are not counted, and keep their place.
    """
    total = csr_array((vocabulary, vocabulary))
    for distance in range(1, window + 1):
        left, right = words[:-distance], words[distance:]
        near = (runs[:-distance] == runs[distance:]) & (left >= 0) & (right >= 0)
        where = (left[near], right[near])
        total += coo_array((np.ones(len(where[0])), where), shape=total.shape).tocsr()
    return csr_array(total + total.T)


def ppmi(counts: csr_array, smoothing: float = 0.75) -> csr_array:
    """Positive pointwise mutual information max(0, ln p(w,c) / (p(w) p(c))), 0 for pairs that never occur.

    Levy & Goldberg 2014, "Neural word embedding as implicit matrix factorization". Contexts have the probability
    p(c) ∝ #(c)^smoothing (Levy, Goldberg & Dagan 2015), so that rare ones do not get the largest values.
    """
    pairs = coo_array(counts)
    w, c = pairs.coords
    context = counts.sum(0) ** smoothing
    expected = counts.sum(1)[w] * context[c] / context.sum()
    result = csr_array((np.log(pairs.data / expected).clip(min=0), (w, c)), shape=counts.shape)
    result.eliminate_zeros()
    return result


def factors(matrix: csr_array, width: int, rng: np.random.Generator) -> Float[Floats, "n w"]:
    """U √Σ of the singular value decomposition, its `width` largest values: the words of Levy & Goldberg 2014.

    By subspace iteration (Halko, Martinsson & Tropp 2011, algorithm 4.4): exact where the matrix has at most `width` +
    10 rows or that rank, else close. `svds` of scipy is not used because ARPACK restarts from random vectors that
    cannot be seeded, and misses values that repeat. The largest number of each column is positive.
    """
    rows = matrix.shape[0]
    basis = rng.standard_normal((matrix.shape[1], min(rows, width + OVERSAMPLING)))
    for _ in range(POWER_STEPS):
        basis = np.linalg.qr(matrix.T @ np.linalg.qr(matrix @ basis)[0])[0]
    basis = np.linalg.qr(matrix @ basis)[0]
    left, values, _ = np.linalg.svd((matrix.T @ basis).T, full_matrices=False)
    found = (basis @ left * np.sqrt(values))[:, :width]
    found *= np.where(found[np.abs(found).argmax(0), np.arange(found.shape[1])] < 0, -1, 1)
    return np.pad(found, ((0, 0), (0, width - found.shape[1])))
