// Encodes one image part, phase by phase and a few rows at a time, so that it can be interleaved with the steps of a
// text model. Results do not depend on how the work is divided: all operations are row-wise, and within a layer, the
// keys and values of all rows are stored before any row attends. Used on the backend's thread.
#pragma once

#include <cstdint>
#include <vector>

#include "vision/patch_grid.h"
#include "vision/encoder.h"

namespace monolith {

class PieceRun final : public EncoderRun {
 public:
  PieceRun(Encoder& encoder, const PreparedPiece& piece);

  bool advance(int64_t budget) override;
  int64_t left() const override { return total_ - done_; }
  int64_t total() const override { return total_; }
  std::vector<float> take_rows() override { return std::move(rows_); }

 private:
  enum class Phase : uint8_t { kEmbed, kKeys, kLayer, kDeepstack, kProject, kDone };

  // These functions return a phase's number of multiplications per row and its number of rows.
  int64_t work_of_row(Phase phase) const;
  int rows_of(Phase phase) const;
  int64_t work_of_view();
  void next_phase();

  void compute_phases(int64_t budget);
  void compute(int first, int count);
  void embed(int first, int count);
  void store_keys(int first, int count);
  void layer(int first, int count);
  void attend(int first, int count, float* normed);
  void feed_forward(int count, float* x);
  void add_branch(const EncoderLinear& linear, float* from, int count, const float* post_norm, const float* scale,
                  float* x);
  void deepstack(int first, int count);
  void project(int first, int count);
  // Copies the results of the merge blocks, starting with block `first`, to their embeddings. Each result is stored
  // `offset` values after the start of the embedding.
  void place(const float* rows, int first, int count, int64_t offset);

  const VisionParams& params() const { return encoder_.params(); }
  const EncoderWeights& weights() const { return encoder_.weights(); }
  const EncoderMemory& memory() const { return encoder_.memory(); }
  const EncoderLayer& current() const { return weights().layers[static_cast<size_t>(layer_)]; }
  bool windowed() const { return params().full_every > 0 && (layer_ + 1) % params().full_every != 0; }
  float* row(int index) const { return memory().x + int64_t{index} * params().width; }
  int view_height() const { return piece_.height / n_views_; }
  int square_patches() const { return params().merge * params().merge; }

  // Returns the index of the embedding for a merge block of the current view; -1 if the block is padding.
  int64_t place_of(int square) const;

  Encoder& encoder_;
  const PreparedPiece& piece_;
  const int n_views_;  // Each view is encoded separately.
  PatchGrid grid_;
  std::vector<float> levels_;
  std::vector<int32_t> tap_rows_;
  std::vector<float> tap_weights_;
  int view_ = 0;
  Phase phase_ = Phase::kEmbed;
  int layer_ = 0, next_row_ = 0;
  int deepstack_ = 0;  // Number of deepstack layers computed so far.
  int64_t done_ = 0, total_ = 0;
  std::vector<float> rows_;  // [n_rows][row_width].
};

}  // namespace monolith
