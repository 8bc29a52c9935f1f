"""The WordPiece vocabulary of the embedding model, and initial vectors for its tokens."""

import numpy as np
import torch
from scipy import sparse
from tokenizers import BertWordPieceTokenizer, Tokenizer

from encoder import SPECIALS


def build(texts, size: int) -> Tokenizer:
    """Lower case without accents, like bert-base-uncased. The first ids are SPECIALS."""
    tokenizer = BertWordPieceTokenizer(lowercase=True, strip_accents=True)
    tokenizer.train_from_iterator(
        texts, vocab_size=size, min_frequency=2, limit_alphabet=400, special_tokens=SPECIALS, show_progress=False
    )
    return tokenizer


def spellings(tokenizer) -> list[str]:
    """Tokens as GGUF files spell them: "▁" begins a word, and tokens inside a word have no "##"."""
    vocabulary = tokenizer.get_vocab()
    tokens = sorted(vocabulary, key=vocabulary.get)
    return [t if t in SPECIALS else t[2:] if t.startswith("##") else "▁" + t for t in tokens]


def word_vectors(documents: list[list[int]], size: int, width: int, seed: int = 0) -> torch.Tensor:
    """Vectors [size, width] whose sum over a text's tokens approximates TF-IDF: half of each is latent semantic
    analysis of `documents`, which puts words of one subject near each other, and half is random, which tells them
    apart. Their length is the inverse document frequency."""
    rows = np.concatenate([np.full(len(set(d)), i) for i, d in enumerate(documents)])
    columns = np.concatenate([np.fromiter(set(d), int) for d in documents])
    frequency = np.bincount(columns, minlength=size)
    idf = np.log((len(documents) + 1) / (frequency + 1))
    counts = sparse.csr_matrix((idf[columns].astype(np.float32), (rows, columns)), (len(documents), size))
    counts = sparse.diags(1 / np.maximum(np.sqrt(counts.multiply(counts).sum(1).A1), 1e-6).astype(np.float32)) @ counts
    rng = np.random.default_rng(seed)
    guess = rng.standard_normal((size, width + 16)).astype(np.float32)
    for _ in range(4):  # randomized subspace iteration on counts' transpose times counts
        guess, _ = np.linalg.qr(counts.T @ (counts @ guess))
    small = counts @ guess
    _, values, right = np.linalg.svd(small.T @ small)
    latent = (guess @ right.T)[:, 1:width + 1] * values[1:width + 1] ** 0.25
    unit = lambda x: x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-6)
    mixed = unit(unit(latent) + unit(rng.standard_normal((size, width))))
    weights = np.minimum(idf, 9.0) / 9.0
    weights[: len(SPECIALS)] = 0
    return torch.tensor(mixed * weights[:, None], dtype=torch.float32)
