#include "vision/encoder.h"

#include <algorithm>
#include <cassert>
#include <string>

#include "vision/encoder_run.h"

namespace monolith {
namespace {

// Maximum number of rows per operation. With this many rows, reading the weights takes little time compared with the
// multiplications.
constexpr int kChunkRows = 384;

int64_t most_hidden(const EncoderWeights& weights) {
  int64_t most = std::max(weights.first.rows, weights.merger.rows);
  for (const DeepstackPart& part : weights.deepstack) most = std::max(most, part.first.rows);
  return most;
}

}  // namespace

EncoderSizes::EncoderSizes(const VisionParams& params, const EncoderWeights& weights)
    : most_rows(params.most_patches + (params.class_vector ? 1 : 0)),
      hidden(most_hidden(weights)),
      fixed16(weights.attends_in_fixed16()) {
  const int square = params.merge * params.merge;
  chunk_rows = std::max(1, kChunkRows / square) * square;
  clamped = std::max(chunk_rows * std::max<int64_t>({params.width, params.n_ff, params.patch_values()}),
                     chunk_rows / square * hidden);
  most_cols = std::max<int64_t>({params.width * int64_t{square}, params.n_ff, params.patch_values(), hidden});
}

int64_t EncoderSizes::floats(const VisionParams& params, const EncoderOperations& operations) const {
  const int64_t chunk = chunk_rows, squares = chunk / (params.merge * params.merge);
  return most_rows * int64_t{params.width} + 2 * most_rows * int64_t{params.head_dim()} +
         chunk * params.patch_values() + 4 * chunk * params.width + clamped + 2 * chunk * params.n_ff +
         squares * (hidden + params.n_embd) + key_floats(params, operations);
}

int64_t EncoderSizes::key_floats(const VisionParams& params, const EncoderOperations& operations) const {
  return fixed16 ? operations.fixed16_key_floats(most_rows, params.n_heads, params.head_dim())
                 : operations.encoder_key_floats(most_rows, params.n_heads, params.head_dim());
}

Encoder::Encoder(std::shared_ptr<const VisionModel> model, Backend& backend, EncoderWeights weights)
    : model_(std::move(model)), backend_(backend), weights_(std::move(weights)), sizes_(model_->params(), weights_) {}

Status Encoder::reserve() {
  const VisionParams& p = params();
  const int64_t chunk = sizes_.chunk_rows, squares = chunk / (p.merge * p.merge), width = p.width;
  Status status;
  const auto allocate = [&](int64_t count) -> float* {
    if (!status.ok()) return nullptr;
    Result<float*> floats = backend_.allocate(std::max<int64_t>(1, count));
    if (floats) return *floats;
    status = floats.error();
    return nullptr;
  };
  memory_.x = allocate(sizes_.most_rows * width);
  if (p.traits->rotation != PatchRotation::kNone) {
    memory_.own = allocate(int64_t{sizes_.most_rows} * p.head_dim());
    memory_.partner = allocate(int64_t{sizes_.most_rows} * p.head_dim());
  }
  memory_.patches = allocate(chunk * p.patch_values());
  memory_.normed = allocate(chunk * width);
  memory_.q = allocate(chunk * width);
  memory_.k = allocate(chunk * width);
  memory_.v = allocate(chunk * width);
  memory_.clamped = allocate(sizes_.clamped);
  memory_.up = allocate(chunk * p.n_ff);
  memory_.gate = allocate(chunk * p.n_ff);
  memory_.hidden = allocate(squares * sizes_.hidden);
  memory_.result = allocate(squares * std::max<int64_t>(p.n_embd, width));
  memory_.keys = {allocate(sizes_.key_floats(p, operations())), sizes_.most_rows, p.n_heads, p.head_dim(),
                  sizes_.fixed16};
  if (!status.ok()) return status;
  if (backend_.supports(Fixed16Heads{p.head_dim()}))
    if (status = operations().reserve_fixed16(static_cast<int>(chunk), sizes_.most_cols); !status.ok()) return status;
  return backend_.reserve(static_cast<int>(chunk), sizes_.most_cols, 1, p.head_dim());
}

void Encoder::apply(const EncoderLinear& linear, float* x, int n_rows, float* out, bool add_to_out) const {
  const EncoderClamps& clamps = linear.clamps;
  const RowCount rows = RowCount::fixed(n_rows);
  if (clamps.any) {
    assert(n_rows * linear.cols <= sizes_.clamped);
    backend_.copy_rows(x, linear.cols, rows, linear.cols, memory_.clamped);
    x = memory_.clamped;
    operations().clamp(x, n_rows * linear.cols, clamps.in_low, clamps.in_high);
  }
  const MatmulTarget target{linear.weight.get(), out, linear.rows, linear.bias, add_to_out};
  if (linear.fixed16)
    operations().fixed16_matmul({&target, 1}, x, n_rows);
  else
    backend_.matmul({&target, 1}, x, rows);
  if (clamps.any) operations().clamp(out, n_rows * linear.rows, clamps.out_low, clamps.out_high);
}

void Encoder::norm(const EncoderNorm& norm, const float* x, float eps, int n_rows, int64_t dim, float* out) const {
  const RowCount rows = RowCount::fixed(n_rows);
  if (norm.bias != nullptr)
    backend_.layer_norm(x, norm.weight, norm.bias, eps, rows, dim, out);
  else
    backend_.rms_norm(x, norm.weight, eps, rows, dim, out);
}

std::unique_ptr<EncoderRun> Encoder::begin(const PreparedPiece& piece) {
  return std::make_unique<PieceRun>(*this, piece);
}

namespace {

// Selects 16-bit integers if they are requested and the device supports them, otherwise 32-bit floats.
SixteenBits halves_of(const VisionModel& model, Backend& backend, VisionPrecision precision) {
  EncoderOperations* const operations = backend.encoders();
  if (operations == nullptr) return {};
  const bool fast =
      precision == VisionPrecision::kFast && backend.supports(Fixed16Heads{model.params().head_dim()}).ok();
  return {.integers = fast ? operations : nullptr, .bf16_as_f32 = operations->rounds_to_bf16()};
}

}  // namespace

size_t VisionEncoder::weight_bytes(const GgufFile& file, const VisionModel& model, Backend& backend,
                                   VisionPrecision precision) {
  return encoder_weight_bytes(file, model.params(), backend, halves_of(model, backend, precision));
}

size_t VisionEncoder::work_bytes(const GgufFile& file, const VisionModel& model, Backend& backend,
                                 VisionPrecision precision) {
  if (backend.encoders() == nullptr) return 0;
  VisionParams params = model.params();
  const SixteenBits halves = halves_of(model, backend, precision);
  const EncoderSizes sizes(params, encoder_shapes(file, params, halves));
  return static_cast<size_t>(sizes.floats(params, *backend.encoders())) * sizeof(float) +
         (halves.integers == nullptr ? 0 : halves.integers->fixed16_scratch_bytes(sizes.chunk_rows, sizes.most_cols));
}

Result<std::unique_ptr<VisionEncoder>> VisionEncoder::load(const GgufFile& file,
                                                           std::shared_ptr<const VisionModel> model, Backend& backend,
                                                           VisionPrecision precision) {
  if (backend.encoders() == nullptr)
    return Error{ErrorCode::kUnsupported, "backend \"" + backend.info().name + "\" does not support vision encoders"};
  Result<EncoderWeights> weights =
      load_encoder_weights(file, model->params(), backend, halves_of(*model, backend, precision));
  if (!weights) return weights.error();
  auto encoder = std::make_unique<Encoder>(std::move(model), backend, std::move(*weights));
  if (Status s = encoder->reserve(); !s) return s.error();
  return std::unique_ptr<VisionEncoder>(std::move(encoder));
}

}  // namespace monolith
