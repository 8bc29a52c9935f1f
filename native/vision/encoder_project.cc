// Converts the encoder's output to embeddings with the projector and the deepstack layers.
#include <algorithm>
#include <cmath>

#include "vision/encoder_run.h"

namespace monolith {
namespace {

// Epsilon of the norms over merged patches. It is a constant in the reference implementation and is not stored in
// files.
constexpr float kMergedEps = 1e-5f;

}  // namespace

// Applies, in this order, the encoder's final norm, patch norm, average pooling over a merge block, merge block norm,
// merging linear layer, first linear layer with GELU, last linear layer. Layers that the model does not have are
// skipped.
void PieceRun::project(int first, int count) {
  const VisionParams& p = params();
  const EncoderWeights& w = weights();
  Backend& backend = encoder_.backend();
  const int patches = count * square_patches();
  const RowCount rows = RowCount::fixed(count);
  const bool pools = p.traits->projector == Projector::kGemma3 || p.traits->projector == Projector::kGemma4;
  // For LLaVA, as in llama.cpp, the first patch is dropped and the class token's row is used as the last patch.
  float* from = row(first * square_patches() + (p.traits->projector == Projector::kMlp && !p.original() ? 1 : 0));
  float* const normed = memory().normed;
  int64_t width = int64_t{square_patches()} * p.width;
  if (w.post) {
    encoder_.norm(w.post, from, p.eps, patches, p.width, normed);
    from = normed;
  }
  if (w.patch_norm) {
    encoder_.norm(w.patch_norm, from, p.eps, patches, p.width, normed);
    from = normed;
  }
  if (pools) {
    width = p.width;
    const bool gemma4 = p.traits->projector == Projector::kGemma4;
    const auto share = static_cast<float>((gemma4 ? std::sqrt(static_cast<double>(p.width)) : 1.0) / square_patches());
    encoder_.operations().add_up_rows(from, square_patches(), share, count, width, memory().k);
    from = memory().k;
    if (w.minus_bias != nullptr) backend.add_bias(from, w.minus_bias, rows, width);
    if (w.column_scale != nullptr) backend.scale_columns(from, w.column_scale, rows, width);
    if (gemma4) backend.rms_norm_heads(from, width, nullptr, p.eps, rows, 1, static_cast<int>(width));
  }
  if (w.merged_norm) {
    encoder_.norm(w.merged_norm, from, pools ? p.eps : kMergedEps, count, width, normed);
    from = normed;
  }
  if (w.merger) {
    encoder_.apply(w.merger, from, count, memory().result);
    from = memory().result;
  }
  if (w.first) {
    encoder_.apply(w.first, from, count, memory().hidden);
    from = memory().hidden;
    backend.activate(Activation::kGelu, from, rows, w.first.rows);
  }
  float* const out = from == memory().result ? memory().hidden : memory().result;
  encoder_.apply(w.last, from, count, out);
  place(out, first, count, 0);
}

void PieceRun::deepstack(int first, int count) {
  const VisionParams& p = params();
  const DeepstackPart& part = weights().deepstack[static_cast<size_t>(deepstack_)];
  encoder_.norm(part.norm, row(first * square_patches()), p.eps, count, int64_t{square_patches()} * p.width,
                memory().normed);
  encoder_.apply(part.first, memory().normed, count, memory().hidden);
  encoder_.backend().activate(Activation::kGelu, memory().hidden, RowCount::fixed(count), part.first.rows);
  encoder_.apply(part.last, memory().hidden, count, memory().result);
  place(memory().result, first, count, (1 + deepstack_) * p.n_embd);
}

int64_t PieceRun::place_of(int square) const {
  if (view_ == 0) return square + (params().breaks_rows ? square / grid_.square_columns() : 0);
  const TiledRows& tiled = *piece_.tiled;
  const int tile = view_ - 1, columns = grid_.square_columns();
  const int row = tile / tiled.columns * grid_.square_rows() + square / columns - tiled.top;
  const int column = tile % tiled.columns * columns + square % columns - tiled.left;
  if (row < 0 || row >= tiled.grid_rows || column < 0 || column >= tiled.grid_columns) return -1;
  return int64_t{grid_.square_rows()} * columns + int64_t{row} * (tiled.grid_columns + 1) + column;
}

void PieceRun::place(const float* rows, int first, int count, int64_t offset) {
  const VisionParams& p = params();
  for (int i = 0; i < count; ++i) {
    const int64_t at = place_of(grid_.square(first + i));
    if (at < 0) continue;
    encoder_.backend().read_floats(rows_.data() + at * p.row_width() + offset, rows + i * p.n_embd, p.n_embd);
  }
}

}  // namespace monolith
