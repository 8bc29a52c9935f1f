#include "vision/encoder_run.h"

#include <algorithm>
#include <cmath>

#include "vision/normalization.h"

namespace monolith {
namespace {

// With fewer rows per operation, reading the weights would take most of the time. The upper limit is the encoder's
// chunk size.
constexpr int kMinRows = 32;

}  // namespace

PieceRun::PieceRun(Encoder& encoder, const PreparedPiece& piece)
    : encoder_(encoder),
      piece_(piece),
      n_views_(piece.tiled ? piece.tiled->n_views() : 1),
      grid_(encoder.params(), piece.width, view_height()) {
  const VisionParams& p = params();
  const ColorLevels levels = color_levels(p.mean, p.deviation);
  levels_.assign(levels.begin(), levels.end());
  // Gemma 4's encoder expects 2 v - 1 for each color value v.
  if (p.traits->projector == Projector::kGemma4)
    for (float& level : levels_) level = 2 * level - 1;
  std::vector<float> own, partner;
  grid_.rotations(own, partner);
  if (!own.empty()) {
    encoder.backend().write_floats(memory().own, own.data(), static_cast<int64_t>(own.size()));
    encoder.backend().write_floats(memory().partner, partner.data(), static_cast<int64_t>(partner.size()));
  }
  const int64_t breaks = p.breaks_rows ? grid_.square_rows() - 1 : 0;
  const int64_t of_view = int64_t{grid_.square_rows()} * grid_.square_columns();
  const int64_t n_rows = of_view + breaks + (piece.tiled ? piece.tiled->n_rows() : 0);
  rows_.resize(static_cast<size_t>(n_rows * p.row_width()));
  // Writes the newline or break embedding to the last column of `lines` rows of embeddings. The first row starts at
  // embedding `from`.
  const auto put_breaks = [&](int64_t from, int64_t lines, int64_t columns) {
    for (int64_t i = 0; i < lines; ++i)
      encoder.backend().read_floats(rows_.data() + (from + (i + 1) * (columns + 1) - 1) * p.row_width(),
                                    weights().row_break, p.n_embd);
  };
  put_breaks(0, breaks, grid_.square_columns());
  if (piece.tiled) put_breaks(of_view, piece.tiled->grid_rows, piece.tiled->grid_columns);
  total_ = work_of_view() * n_views_;
}

int PieceRun::rows_of(Phase phase) const {
  if (phase == Phase::kDeepstack || phase == Phase::kProject) return grid_.n_patches() / square_patches();
  return phase == Phase::kDone ? 0 : grid_.n_rows();
}

int64_t PieceRun::work_of_row(Phase phase) const {
  const VisionParams& p = params();
  const int64_t width = p.width, square = int64_t{square_patches()} * width;
  switch (phase) {
    case Phase::kEmbed: return p.patch_values() * width;
    case Phase::kKeys: return 2 * width * width;
    case Phase::kLayer: {
      const int64_t window = int64_t{p.window_blocks} * p.window_blocks * square_patches();
      const int64_t seen = windowed() ? std::min<int64_t>(window, grid_.n_rows()) : grid_.n_rows();
      return 2 * width * width + 2 * seen * width + (weights().layers[0].gate ? 3 : 2) * width * p.n_ff;
    }
    case Phase::kDeepstack: {
      const DeepstackPart& part = weights().deepstack[0];
      return part.first.rows * square + part.last.rows * part.first.rows;
    }
    case Phase::kProject:
      return weights().last.rows * weights().last.cols + weights().first.rows * weights().first.cols +
             weights().merger.rows * weights().merger.cols;
    case Phase::kDone: break;
  }
  return 0;
}

int64_t PieceRun::work_of_view() {
  const auto phase = [&](Phase each) { return rows_of(each) * work_of_row(each); };
  int64_t work = phase(Phase::kEmbed) + phase(Phase::kProject) + phase(Phase::kKeys) * params().n_layers;
  // A layer with attention windows takes a different amount of work than a layer without them.
  for (layer_ = 0; layer_ < params().n_layers; ++layer_) work += phase(Phase::kLayer);
  layer_ = 0;
  if (!weights().deepstack.empty()) work += phase(Phase::kDeepstack) * static_cast<int64_t>(weights().deepstack.size());
  return work;
}

void PieceRun::next_phase() {
  const auto after_layer = [&] {
    ++layer_;
    phase_ = layer_ < params().n_layers ? Phase::kKeys : Phase::kProject;
  };
  switch (phase_) {
    case Phase::kEmbed: phase_ = params().n_layers > 0 ? Phase::kKeys : Phase::kProject; break;
    case Phase::kKeys: phase_ = Phase::kLayer; break;
    case Phase::kLayer:
      if (std::ranges::find(params().deepstack, layer_) != params().deepstack.end())
        phase_ = Phase::kDeepstack;
      else
        after_layer();
      break;
    case Phase::kDeepstack:
      ++deepstack_;
      after_layer();
      break;
    case Phase::kProject:
      phase_ = ++view_ < n_views_ ? Phase::kEmbed : Phase::kDone;
      layer_ = deepstack_ = 0;
      break;
    case Phase::kDone: break;
  }
  next_row_ = 0;
}

bool PieceRun::advance(int64_t budget) {
  if (phase_ == Phase::kDone) return true;
  encoder_.backend().begin_step({.model = this,
                                 .tokens = {},
                                 .logit_rows = {},
                                 .segment_lists = {},
                                 .max_rows = encoder_.sizes().chunk_rows,
                                 .recordable = false});
  try {
    compute_phases(budget);
  } catch (...) {  // The backend must not stay in the step, because its threads spin meanwhile.
    encoder_.backend().end_step();
    throw;
  }
  encoder_.backend().end_step();
  if (phase_ != Phase::kDone) return false;
  done_ = total_;
  return true;
}

void PieceRun::compute_phases(int64_t budget) {
  int64_t left = budget;
  do {
    const bool squares = phase_ == Phase::kDeepstack || phase_ == Phase::kProject;
    const int most = encoder_.sizes().chunk_rows / (squares ? square_patches() : 1);
    const int least = std::min(most, kMinRows);
    const int64_t work = std::max<int64_t>(1, work_of_row(phase_));
    const int wanted = static_cast<int>(std::clamp<int64_t>(left / work, least, most));
    const int count = std::min(wanted, rows_of(phase_) - next_row_);
    compute(next_row_, count);
    next_row_ += count;
    left -= count * work;
    done_ += count * work;
    if (next_row_ == rows_of(phase_)) next_phase();
  } while (phase_ != Phase::kDone && left > 0);
}

void PieceRun::compute(int first, int count) {
  switch (phase_) {
    case Phase::kEmbed: return embed(first, count);
    case Phase::kKeys: return store_keys(first, count);
    case Phase::kLayer: return layer(first, count);
    case Phase::kDeepstack: return deepstack(first, count);
    case Phase::kProject: return project(first, count);
    case Phase::kDone: return;
  }
}

void PieceRun::embed(int first, int count) {
  const VisionParams& p = params();
  EncoderOperations& operations = encoder_.operations();
  const int patches = std::min(first + count, grid_.n_patches()) - first;
  float* const x = row(first);
  if (patches > 0) {
    const uint8_t* const pixels = piece_.pixels.data() + int64_t{3} * view_ * piece_.width * view_height();
    operations.take_patches({pixels, piece_.width, p.patch_size, levels_.data()},
                            grid_.places().subspan(static_cast<size_t>(first), static_cast<size_t>(patches)),
                            memory().patches);
    encoder_.apply(weights().patches, memory().patches, patches, x);
    if (grid_.conv_kernel_size() > 0) {
      grid_.taps(first, patches, tap_rows_, tap_weights_);
      operations.add_table_rows({grid_.conv_kernel_size(), tap_rows_.data(), tap_weights_.data()}, weights().positions,
                                patches, p.width, x);
    }
  }
  if (first + count > grid_.n_patches()) {  // The class token is the last row.
    float* const last = row(grid_.n_patches());
    encoder_.backend().copy_rows(weights().class_vector, p.width, RowCount::fixed(1), p.width, last);
    const int32_t position = p.class_first() ? 0 : p.n_positions;
    const float one = 1;
    operations.add_table_rows({1, &position, &one}, weights().positions, 1, p.width, last);
  }
  if (weights().pre) encoder_.norm(weights().pre, x, p.eps, count, p.width, x);
}

void PieceRun::store_keys(int first, int count) {
  const VisionParams& p = params();
  const EncoderLayer& own = current();
  const int head = p.head_dim();
  encoder_.norm(own.norm1, row(first), p.eps, count, p.width, memory().normed);
  encoder_.apply(own.k, memory().normed, count, memory().k);
  encoder_.apply(own.v, memory().normed, count, memory().v);
  if (own.k_norm != nullptr) {
    const RowCount rows = RowCount::fixed(count);
    encoder_.backend().rms_norm_heads(memory().k, p.width, own.k_norm, p.eps, rows, p.n_heads, head);
    encoder_.backend().rms_norm_heads(memory().v, p.width, nullptr, p.eps, rows, p.n_heads, head);
  }
  if (memory().own != nullptr)
    encoder_.operations().rotate_rows({memory().own + int64_t{first} * head, memory().partner + int64_t{first} * head,
                                       grid_.rotation_style(), grid_.rotation_section()},
                                      count, memory().k, p.width, p.n_heads, head);
  encoder_.operations().store_encoder_keys(memory().keys, memory().k, memory().v, p.width, first, count);
}

void PieceRun::layer(int first, int count) {
  const VisionParams& p = params();
  encoder_.norm(current().norm1, row(first), p.eps, count, p.width, memory().normed);
  attend(first, count, memory().normed);
  feed_forward(count, row(first));
}

void PieceRun::attend(int first, int count, float* normed) {
  const VisionParams& p = params();
  const EncoderLayer& own = current();
  const int head = p.head_dim();
  encoder_.apply(own.q, normed, count, memory().q);
  if (own.q_norm != nullptr)
    encoder_.backend().rms_norm_heads(memory().q, p.width, own.q_norm, p.eps, RowCount::fixed(count), p.n_heads, head);
  if (memory().own != nullptr)
    encoder_.operations().rotate_rows({memory().own + int64_t{first} * head, memory().partner + int64_t{first} * head,
                                       grid_.rotation_style(), grid_.rotation_section()},
                                      count, memory().q, p.width, p.n_heads, head);
  // If queries and keys are normalized, their dot products are not scaled.
  const float scale = own.q_norm != nullptr ? 1.0f : 1.0f / std::sqrt(static_cast<float>(head));
  encoder_.operations().attend_rows({memory().keys, memory().q, p.width, grid_.starts(windowed()).data() + first,
                                     grid_.limits(windowed()).data() + first, count, scale, memory().v});
  add_branch(own.out, memory().v, count, own.attn_post, own.scale1, row(first));
}

void PieceRun::feed_forward(int count, float* x) {
  const VisionParams& p = params();
  const EncoderLayer& own = current();
  encoder_.norm(own.norm2, x, p.eps, count, p.width, memory().normed);
  const RowCount rows = RowCount::fixed(count);
  encoder_.apply(own.up, memory().normed, count, memory().up);
  if (own.gate) {
    encoder_.apply(own.gate, memory().normed, count, memory().gate);
    encoder_.backend().gated(p.activation, memory().gate, memory().up, rows, p.n_ff, memory().up);
  } else {
    encoder_.backend().activate(p.activation, memory().up, rows, p.n_ff);
  }
  add_branch(own.down, memory().up, count, own.ffn_post, own.scale2, x);
}

void PieceRun::add_branch(const EncoderLinear& linear, float* from, int count, const float* post_norm,
                          const float* scale, float* x) {
  const VisionParams& p = params();
  const RowCount rows = RowCount::fixed(count);
  if (post_norm == nullptr && scale == nullptr && !linear.clamps.any)
    return encoder_.apply(linear, from, count, x, true);
  encoder_.apply(linear, from, count, memory().k);
  if (post_norm != nullptr) encoder_.backend().rms_norm(memory().k, post_norm, p.eps, rows, p.width, memory().k);
  if (scale != nullptr) encoder_.backend().scale_columns(memory().k, scale, rows, p.width);
  encoder_.backend().add_rows(x, memory().k, 1.0f, nullptr, rows, p.width);
}

}  // namespace monolith
