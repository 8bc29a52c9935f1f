"""The vision tower: a ViT as LLaVA's (CLIP's layout: pre-norm, biases, a class vector, learned positions), with a projector of two
layers. In GGUF: architecture clip, projector_type mlp."""
import dataclasses

import torch
import torch.nn as nn
import torch.nn.functional as F

EPS = 1e-5
SIDE, PATCH = 48, 8
MEAN, DEVIATION = 0.5, 0.25


@dataclasses.dataclass
class TowerShape:
    width: int = 128
    layers: int = 4
    heads: int = 4
    ffn: int = 512
    inner: int = 256   # of the projector
    side: int = SIDE
    patch: int = PATCH

    @property
    def patches(self):
        return (self.side // self.patch) ** 2


class Layer(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.heads = shape.heads
        self.ln1, self.ln2 = nn.LayerNorm(shape.width, EPS), nn.LayerNorm(shape.width, EPS)
        self.q, self.k, self.v, self.out = (nn.Linear(shape.width, shape.width) for _ in range(4))
        self.up, self.down = nn.Linear(shape.width, shape.ffn), nn.Linear(shape.ffn, shape.width)

    def forward(self, x):
        y = self.ln1(x)
        q, k, v = (part(y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.q, self.k, self.v))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.ln2(x)), approximate="tanh"))


class Tower(nn.Module):
    """Pictures, bytes [n][side][side][3], to features [n][patches][width]. What reads such files takes all rows but the first patch's
    to the decoder, and the class vector's, which is the last, with them."""

    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.patches = nn.Linear(3 * shape.patch ** 2, shape.width)
        self.class_vector = nn.Parameter(torch.randn(shape.width) * 0.5)
        self.positions = nn.Parameter(torch.randn(shape.patches + 1, shape.width) * 0.5)   # the class vector's is the last
        self.pre = nn.LayerNorm(shape.width, EPS)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        for layer in self.layers:
            for linear in (layer.out, layer.down):
                nn.init.zeros_(linear.weight)
                nn.init.zeros_(linear.bias)

    def forward(self, pictures):
        s = self.shape
        x = (pictures.float() / 255 - MEAN) / DEVIATION
        # rows of patches, then their columns; within a patch colour, row, column
        grid = s.side // s.patch
        x = x.view(-1, grid, s.patch, grid, s.patch, 3).permute(0, 1, 3, 5, 2, 4).flatten(3).flatten(1, 2)
        x = torch.cat((self.patches(x), self.class_vector.expand(len(x), 1, -1)), 1) + self.positions
        x = self.pre(x)
        for layer in self.layers:
            x = layer(x)
        return x[:, 1:]


class Projector(nn.Module):
    """Features to rows of embeddings of a language model of `dim` numbers."""

    def __init__(self, shape, dim):
        super().__init__()
        self.first, self.last = nn.Linear(shape.width, shape.inner), nn.Linear(shape.inner, dim)

    def forward(self, features):
        return self.last(F.gelu(self.first(features), approximate="tanh"))
