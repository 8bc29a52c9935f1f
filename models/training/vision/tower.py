"""The vision encoder: a ViT in the layout of LLaVA's CLIP (pre-norm, biases, a class vector, learned positions), with
a two-layer projector. In GGUF: architecture clip, projector_type mlp."""
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
    """Maps images, bytes [n][side][side][3], to features [n][patches][width]. Programs that read such files pass all
    rows except the first patch's to the decoder, including that of the class vector, which is last."""

    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.patches = nn.Linear(3 * shape.patch ** 2, shape.width)
        self.class_vector = nn.Parameter(torch.randn(shape.width) * 0.5)
        self.positions = nn.Parameter(torch.randn(shape.patches + 1, shape.width) * 0.5)   # the class vector's row is last
        self.pre = nn.LayerNorm(shape.width, EPS)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        for layer in self.layers:
            for linear in (layer.out, layer.down):
                nn.init.zeros_(linear.weight)
                nn.init.zeros_(linear.bias)

    def forward(self, pictures):
        s = self.shape
        x = (pictures.float() / 255 - MEAN) / DEVIATION
        # rows of patches, then their columns; within a patch: colour, row, column
        grid = s.side // s.patch
        x = x.view(-1, grid, s.patch, grid, s.patch, 3).permute(0, 1, 3, 5, 2, 4).flatten(3).flatten(1, 2)
        x = torch.cat((self.patches(x), self.class_vector.expand(len(x), 1, -1)), 1) + self.positions
        x = self.pre(x)
        for layer in self.layers:
            x = layer(x)
        return x[:, 1:]


class Projector(nn.Module):
    """Maps features to embedding rows for a language model of width `dim`."""

    def __init__(self, shape, dim):
        super().__init__()
        self.first, self.last = nn.Linear(shape.width, shape.inner), nn.Linear(shape.inner, dim)

    def forward(self, features):
        return self.last(F.gelu(self.first(features), approximate="tanh"))
