"""The encoder of `discovery-embed-1.0`: BERT with mean pooling (GGUF architecture `bert`).

Its first dimension holds a constant that is much larger than the other values, so every norm divides by nearly the same
number. That leaves tokens vectors of different lengths, and the length is the token's weight in the mean. In plain
BERT, the norms make all tokens equally long. The last norm sets the first dimension to 0.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

EPS = 1e-12
PADDING, UNKNOWN, START, END = 0, 1, 2, 3
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
CONSTANT = 6.0


@dataclass(frozen=True)
class Shape:
    vocabulary: int = 12288
    width: int = 256
    layers: int = 2
    heads: int = 8
    ffn: int = 256
    context: int = 512


class Norm(nn.LayerNorm):
    """LayerNorm subtracts the mean, which the constant in the first dimension dominates. The initial bias adds it back
    to the other dimensions."""

    def __init__(self, width: int):
        super().__init__(width, eps=EPS)
        with torch.no_grad():
            self.bias[1:] = (width - 1) ** -0.5


class Layer(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        self.heads = shape.heads
        self.q, self.k, self.v, self.out = (nn.Linear(shape.width, shape.width) for _ in range(4))
        self.up, self.down = nn.Linear(shape.width, shape.ffn), nn.Linear(shape.ffn, shape.width)
        self.attention_norm, self.ffn_norm = (Norm(shape.width) for _ in range(2))
        with torch.no_grad():  # At first, a layer changes little.
            for linear in (self.out, self.down):
                linear.weight.mul_(0.05)
            for linear in (self.q, self.k, self.v, self.up):
                linear.weight[:, 0] = 0  # the constant
            for linear in (self.q, self.k, self.v, self.out, self.up, self.down):
                linear.bias.zero_()

    def forward(self, x, mask):
        split = lambda y: y.view(*y.shape[:2], self.heads, -1).transpose(1, 2)
        heads = F.scaled_dot_product_attention(split(self.q(x)), split(self.k(x)), split(self.v(x)), attn_mask=mask)
        x = self.attention_norm(x + self.out(heads.transpose(1, 2).reshape(x.shape)))
        return self.ffn_norm(x + self.down(F.gelu(self.up(x), approximate="tanh")))


class Encoder(nn.Module):
    """`words`: initial vectors of the tokens, [vocabulary, width - 1], none longer than 1."""

    def __init__(self, shape: Shape, words: torch.Tensor):
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(shape.context, shape.width)
        self.types = nn.Embedding(2, shape.width)
        self.norm = Norm(shape.width)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        with torch.no_grad():
            for table in (self.embedding, self.positions, self.types):
                table.weight.zero_()
            self.embedding.weight[:, 1:] = words
            self.types.weight[:, 0] = CONSTANT
            self.layers[-1].ffn_norm.weight[0] = 0

    def forward(self, ids):
        """Token ids [texts, tokens], padded with PADDING -> unit vectors [texts, width]."""
        kept = ids != PADDING
        x = self.norm(self.embedding(ids) + self.positions(torch.arange(ids.shape[1])) + self.types.weight[0])
        for layer in self.layers:
            x = layer(x, kept[:, None, None, :])
        kept = kept[..., None].float()
        return F.normalize((x * kept).sum(1) / kept.sum(1), dim=-1)
