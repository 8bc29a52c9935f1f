#include "encoder/text_encoder.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <new>
#include <string>

#include "backend/kv_cache.h"

namespace monolith {
namespace {

// Maximum and minimum number of rows per slice. Models with wide layers get smaller slices, because the engine thread
// handles cancellations only between slices.
constexpr int kMaxSliceRows = 256, kMinSliceRows = 32;
constexpr int64_t kSliceWork = int64_t{4} << 30;  // Target work of one layer on a slice, in multiplications.

int pages_of(int64_t n_tokens) { return static_cast<int>((n_tokens + kPageTokens - 1) / kPageTokens); }

TextEncoderSizes sizes_of(const TextEncoderParams& p) {
  const int64_t of_row = p.base.n_embd * (2 * p.q_dim() + 2 * p.kv_dim() + int64_t{3} * p.n_ff);
  return {.batch_rows = std::max(TextEncoder::kBatchRows, pages_of(p.max_tokens) * kPageTokens),
          .slice_rows = static_cast<int>(
              std::clamp<int64_t>(kSliceWork / of_row / kPageTokens * kPageTokens, kMinSliceRows, kMaxSliceRows))};
}

MixtureShape mixture_of(const TextEncoderParams& p) {
  const ExpertParams& experts = p.base.experts;
  return experts.count == 0 ? MixtureShape{} : MixtureShape{experts.count, experts.used, p.base.n_embd, experts.n_ff};
}

int64_t widest(const TextEncoderParams& p) { return std::max({int64_t{p.base.n_embd}, p.q_dim(), int64_t{p.n_ff}}); }

int64_t key_floats(const TextEncoderParams& p, const EncoderOperations& operations) {
  return operations.encoder_key_floats(kPageTokens, p.n_kv_heads, p.head_dim);
}

// Returns the size of the working memory in floats, without the backend's scratch memory and the position bias.
int64_t work_floats(const TextEncoderParams& p, const TextEncoderSizes& sizes, const EncoderOperations& operations) {
  const int64_t slice = sizes.slice_rows;
  const int64_t rotations = p.rotates ? (p.has_windows() ? 4 : 2) * int64_t{p.max_tokens} * p.head_dim : 0;
  return sizes.batch_rows * int64_t{p.base.n_embd} + sizes.batch_rows / kPageTokens * key_floats(p, operations) +
         slice * (2 * int64_t{p.base.n_embd} + 2 * p.q_dim() + 2 * p.kv_dim() + 2 * int64_t{p.n_ff} +
                  p.base.experts.count) +
         rotations;
}

// Returns true if a matrix is stored and multiplied as 16-bit integers. This applies to the layers' F16 and BF16
// matrices if the backend supports it. It is about as accurate as 16-bit floats and faster than converting the weights
// to 32-bit floats.
bool takes_fixed16(const WeightSlot& slot, const TextEncoderParams& p, const Backend& backend) {
  const bool is_16_bit = slot.tensor->type == TensorType::kF16 || slot.tensor->type == TensorType::kBF16;
  return slot.matrix != nullptr && is_16_bit && slot.name.starts_with(p.layer_prefix) && slot.shape[2] == 1 &&
         slot.scale == nullptr && !slot.tensor->fp8 && backend.supports(Fixed16Heads{p.head_dim}).ok();
}

// Removes the slots for which takes_fixed16() returns true from `slots` and returns them.
std::vector<WeightSlot> split_fixed16(std::vector<WeightSlot>& slots, const TextEncoderParams& p,
                                      const Backend& backend) {
  const auto kept =
      std::ranges::stable_partition(slots, [&](const WeightSlot& slot) { return !takes_fixed16(slot, p, backend); });
  std::vector<WeightSlot> split(kept.begin(), kept.end());
  slots.erase(kept.begin(), kept.end());
  return split;
}

Status load_fixed16(const GgufFile& file, const std::vector<WeightSlot>& slots, EncoderOperations& operations,
                    std::unordered_set<const Matrix*>& matrices) {
  std::vector<std::byte> scratch;
  for (const WeightSlot& slot : slots) {
    const size_t offset = static_cast<size_t>(slot.first * slot.cols) * sizeof(uint16_t),
                 size = static_cast<size_t>(slot.rows * slot.cols) * sizeof(uint16_t);
    const std::span<const std::byte> data = file.read(*slot.tensor, offset, size, scratch);
    auto matrix = operations.fixed16_matrix({slot.tensor->type, slot.rows, slot.cols, data});
    if (!matrix) return Error{matrix.error().code, "tensor '" + slot.name + "': " + matrix.error().message};
    *slot.matrix = std::move(*matrix);
    matrices.insert(slot.matrix->get());
    file.give_back(*slot.tensor, offset, size);
  }
  return {};
}

Status check_backend(const TextEncoderParams& p, Backend& backend) {
  const auto refused = [&](const std::string& why) {
    return Error{ErrorCode::kUnsupported, "architecture '" + p.base.architecture_name +
                                              "' is a text encoder, which backend \"" + backend.info().name +
                                              "\" does not support" + why};
  };
  if (backend.encoders() == nullptr || !backend.is_host_memory()) return refused("");
  if (p.base.experts.count == 0) return {};
  const Mixture mixture{.shape = mixture_of(p),
                        .gate = nullptr,
                        .up = nullptr,
                        .down = nullptr,
                        .activation = p.activation,
                        .router = p.base.experts.router};
  if (const Status status = backend.supports(std::cref(mixture)); !status)
    return refused(": " + status.error().message);
  return {};
}

size_t bias_floats(const TextEncoderParams& p) {
  if (!p.has_position_bias()) return 0;
  const auto n_tables = std::max<int64_t>(1, std::ranges::count_if(p.layers, &EncoderLayerParams::own_bias));
  return static_cast<size_t>(n_tables * p.n_heads * (2 * int64_t{p.max_tokens} - 1));
}

}  // namespace

int TextEncoder::rows_of(size_t n_tokens) { return pages_of(static_cast<int64_t>(n_tokens)) * kPageTokens; }

int64_t TextEncoder::key_floats_per_page() const { return key_floats(params_, *backend_.encoders()); }

Result<MemoryPlan> TextEncoder::plan(const GgufFile& file, Backend& backend, int max_context) {
  auto params = TextEncoderParams::read(file, max_context);
  if (!params) return params.error();
  if (Status status = check_backend(*params, backend); !status) return status.error();
  TextEncoderWeights none;
  auto slots = text_encoder_slots(file, *params, none);
  if (!slots) return slots.error();
  if (Status status = fit_types(*slots, backend); !status) return status.error();
  auto head = PoolingHead::load(file, {params->base.pooling, params->base.n_embd, params->base.norm_eps, false});
  if (!head) return head.error();
  const TextEncoderSizes sizes = sizes_of(*params);
  MemoryPlan plan{};
  const std::vector<WeightSlot> fixed16 = split_fixed16(*slots, *params, backend);
  plan.weight_bytes = monolith::weight_bytes(*slots, backend) + head->bytes();
  for (const WeightSlot& slot : fixed16) plan.weight_bytes += backend.encoders()->fixed16_bytes(slot.rows, slot.cols);
  if (!fixed16.empty())
    plan.activation_bytes += backend.encoders()->fixed16_scratch_bytes(sizes.slice_rows, widest(*params));
  plan.activation_bytes +=
      (static_cast<size_t>(work_floats(*params, sizes, *backend.encoders())) + bias_floats(*params)) * sizeof(float) +
      backend.scratch_bytes(sizes.slice_rows, widest(*params), 1, params->head_dim, mixture_of(*params));
  return plan;
}

Result<std::unique_ptr<TextEncoder>> TextEncoder::load(const GgufFile& file, Backend& backend, int max_context,
                                                       const Model::Progress& progress) {
  auto plan = TextEncoder::plan(file, backend, max_context);
  if (!plan) return plan.error();
  auto params = TextEncoderParams::read(file, max_context);
  if (!params) return params.error();
  std::unique_ptr<TextEncoder> encoder(new TextEncoder(std::move(*params), backend));
  encoder->plan_ = *plan;
  const TextEncoderParams& p = encoder->params_;
  auto slots = text_encoder_slots(file, p, encoder->weights_);
  if (!slots) return slots.error();
  if (Status status = fit_types(*slots, backend); !status) return status.error();
  const std::vector<WeightSlot> fixed16 = split_fixed16(*slots, p, backend);
  if (Status status = load_fixed16(file, fixed16, *backend.encoders(), encoder->fixed16_); !status)
    return status.error();
  size_t allocated = 0;
  if (Status status = load_weights(file, *slots, backend, progress, allocated); !status) return status.error();
  auto head = PoolingHead::load(file, {p.base.pooling, p.base.n_embd, p.base.norm_eps, false});
  if (!head) return head.error();
  encoder->head_ = std::move(*head);
  try {
    if (Status status = encoder->reserve(); !status) return status.error();
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kOutOfMemory, "out of memory for texts of " + std::to_string(p.max_tokens) + " tokens"};
  }
  return encoder;
}

Status TextEncoder::reserve() {
  const TextEncoderParams& p = params_;
  sizes_ = sizes_of(p);
  Status status;
  const auto allocate = [&](int64_t count) -> float* {
    if (!status || count == 0) return nullptr;
    Result<float*> floats = backend_.allocate(count);
    if (floats) return *floats;
    status = floats.error();
    return nullptr;
  };
  const int64_t slice = sizes_.slice_rows;
  x_ = allocate(sizes_.batch_rows * int64_t{p.base.n_embd});
  keys_ = allocate(sizes_.batch_rows / kPageTokens * key_floats_per_page());
  normed_ = allocate(slice * p.base.n_embd);
  branch_ = allocate(slice * p.base.n_embd);
  q_ = allocate(slice * p.q_dim());
  attended_ = allocate(slice * p.q_dim());
  k_ = allocate(slice * p.kv_dim());
  v_ = allocate(slice * p.kv_dim());
  gate_ = allocate(slice * p.n_ff);
  up_ = allocate(slice * p.n_ff);
  router_ = allocate(slice * p.base.experts.count);
  const auto make_rotation = [&](const RopeSet& rope, Rotation& rotation) {
    const int64_t head = p.head_dim, pairs = static_cast<int64_t>(rope.inverse_frequency.size());
    rotation = {allocate(p.max_tokens * head), allocate(p.max_tokens * head)};
    if (!status) return;
    std::vector<float> own(static_cast<size_t>(head), 1.0f), partner(own.size());
    for (int64_t position = 0; position < p.max_tokens; ++position) {
      for (int64_t i = 0; i < pairs; ++i) {
        const float angle = static_cast<float>(position) * rope.inverse_frequency[static_cast<size_t>(i)];
        const float c = std::cos(angle) * rope.magnitude, s = std::sin(angle) * rope.magnitude;
        const bool halves = p.rope_style == RopeStyle::kHalves;
        const auto first = static_cast<size_t>(halves ? i : 2 * i);
        const size_t second = first + static_cast<size_t>(halves ? pairs : 1);
        own[first] = own[second] = c;
        partner[first] = -s;
        partner[second] = s;
      }
      backend_.write_floats(rotation.own + position * head, own.data(), head);
      backend_.write_floats(rotation.partner + position * head, partner.data(), head);
    }
  };
  if (p.rotates) make_rotation(p.rope, rotation_);
  if (p.rotates && p.has_windows()) make_rotation(p.windowed_rope, windowed_rotation_);
  if (!status) return status;
  if (p.max_alibi_bias > 0) biases_.push_back(position_bias(p, {}));
  for (size_t i = 0; i < p.layers.size(); ++i) {
    if (!p.layers[i].own_bias) continue;
    std::vector<float> buckets(static_cast<size_t>(p.n_buckets) * static_cast<size_t>(p.n_heads));
    backend_.read_floats(buckets.data(), weights_.layers[i].buckets, static_cast<int64_t>(buckets.size()));
    biases_.resize(i + 1);
    biases_[i] = position_bias(p, buckets);
  }
  const auto n = static_cast<size_t>(sizes_.slice_rows);
  starts_.reserve(n);
  limits_.reserve(n);
  tokens_.reserve(n);
  positions_.reserve(n);
  types_.reserve(n);
  if (!fixed16_.empty())
    if (Status reserved = backend_.encoders()->reserve_fixed16(sizes_.slice_rows, widest(p)); !reserved)
      return reserved;
  return backend_.reserve(sizes_.slice_rows, widest(p), 1, p.head_dim, mixture_of(p));
}

void TextEncoder::begin(std::span<const std::span<const int32_t>> texts) {
  texts_.clear();
  results_.assign(texts.size(), {});
  n_rows_ = 0;
  int64_t pages = 0;
  for (const std::span<const int32_t>& tokens : texts) {
    assert(!tokens.empty() && tokens.size() <= static_cast<size_t>(params_.max_tokens));
    texts_.push_back({tokens, n_rows_, pages * key_floats_per_page()});
    n_rows_ += static_cast<int>(tokens.size());
    pages += pages_of(static_cast<int64_t>(tokens.size()));
  }
  assert(pages * kPageTokens <= sizes_.batch_rows);
  phase_ = texts.empty() ? Phase::kDone : Phase::kEmbed;
  layer_ = next_row_ = 0;
}

bool TextEncoder::advance() {
  if (phase_ == Phase::kDone) return true;
  const int count = std::min(sizes_.slice_rows, n_rows_ - next_row_);
  backend_.begin_step({.model = this,
                       .tokens = {},
                       .logit_rows = {},
                       .segment_lists = {},
                       .max_rows = sizes_.slice_rows,
                       .recordable = false});
  compute(next_row_, count);
  next_row_ += count;
  if (next_row_ == n_rows_) {
    next_row_ = 0;
    if (phase_ == Phase::kLayer) ++layer_;
    phase_ = phase_ == Phase::kKeys ? Phase::kLayer : Phase::kKeys;
    if (layer_ == params_.base.n_layers) phase_ = Phase::kDone;
  }
  backend_.end_step();
  if (phase_ != Phase::kDone) return false;
  pool();
  return true;
}

void TextEncoder::compute(int first, int count) {
  switch (phase_) {
    case Phase::kEmbed: return embed(first, count);
    case Phase::kKeys: return store_keys(first, count);
    case Phase::kLayer: return run_layer(first, count);
    case Phase::kDone: return;
  }
}

// Calls `work` once for each text that has rows in [first, first + count), passing the Part of the text that lies in
// this range.
template <typename Work>
void TextEncoder::for_parts(int first, int count, Work&& work) const {
  for (const Text& text : texts_) {
    const int begin = std::max(first, text.first_row), end = std::min(first + count, text.first_row + text.n_rows());
    if (begin < end) work(Part{text, begin - text.first_row, end - begin, begin - first});
  }
}

void TextEncoder::embed(int first, int count) {
  const HyperParams& base = params_.base;
  tokens_.clear();
  positions_.clear();
  types_.clear();
  for_parts(first, count, [&](const Part& part) {
    const auto& text = part.text.tokens;
    const auto from = text.begin() + part.first;
    tokens_.insert(tokens_.end(), from, from + part.n_rows);
    for (int i = 0; i < part.n_rows; ++i) positions_.push_back(part.first + i);
    const auto separator =
        params_.pair_separator < 0 ? text.end() : std::find(text.begin(), text.end(), params_.pair_separator);
    for (int i = 0; i < part.n_rows; ++i) types_.push_back(from + i > separator ? 1 : 0);
  });
  const RowCount rows = RowCount::fixed(count);
  float* const x = row(first);
  backend_.embed(*weights_.embedding, tokens_.data(), rows, x);
  if (base.embedding_scale != 1.0f) backend_.scale(x, rows, base.n_embd, base.embedding_scale);
  const auto add_table = [&](const Matrix& table, const std::vector<int32_t>& indices) {
    backend_.embed(table, indices.data(), rows, normed_);
    backend_.add_rows(x, normed_, 1.0f, nullptr, rows, base.n_embd);
  };
  if (weights_.token_types) add_table(*weights_.token_types, types_);
  if (weights_.positions) add_table(*weights_.positions, positions_);
  if (base.embedding_norm) apply_norm(base, weights_.embedding_norm, backend_, x, rows, base.n_embd, x);
}

// Returns the input of a block: `x` itself, or the normalized `x` if the model has pre-norms.
const float* TextEncoder::norm_before(const NormWeights& norm, const float* x, int count) {
  if (!params_.pre_norms || norm.weight == nullptr) return x;
  apply_norm(params_.base, norm, backend_, x, RowCount::fixed(count), params_.base.n_embd, normed_);
  return normed_;
}

void TextEncoder::project(const Matrix& weight, const float* bias, const float* x, int count, float* out) {
  const MatmulTarget target{.weight = &weight, .out = out, .out_stride = weight.rows, .bias = bias};
  multiply({&target, 1}, x, count);
}

void TextEncoder::multiply(std::span<const MatmulTarget> targets, const float* x, int count) {
  const auto is_fixed16 = [&](const MatmulTarget& target) { return fixed16_.contains(target.weight); };
  if (std::ranges::all_of(targets, is_fixed16)) return backend_.encoders()->fixed16_matmul(targets, x, count);
  if (std::ranges::none_of(targets, is_fixed16)) return backend_.matmul(targets, x, RowCount::fixed(count));
  for (const MatmulTarget& target : targets) multiply({&target, 1}, x, count);
}

void TextEncoder::normalize_qk(const NormWeights& norm, int n_heads, int count, float* x) {
  const int64_t dim = int64_t{n_heads} * params_.head_dim;
  const RowCount rows = RowCount::fixed(count);
  if (params_.qk_norm == EncoderQkNorm::kEachHead)
    backend_.rms_norm_heads(x, dim, norm.weight, params_.base.norm_eps, rows, n_heads, params_.head_dim);
  if (params_.qk_norm == EncoderQkNorm::kWholeRow)
    backend_.layer_norm(x, norm.weight, norm.bias, params_.base.norm_eps, rows, dim, x);
}

void TextEncoder::rotate(int first, int count, int n_heads, float* x) {
  if (!params_.rotates) return;
  const Rotation& rotation = current_params().windowed ? windowed_rotation_ : rotation_;
  const int section = 2 * static_cast<int>(params_.rope.inverse_frequency.size());
  const int64_t dim = int64_t{n_heads} * params_.head_dim;
  for_parts(first, count, [&](const Part& part) {
    const int64_t at = int64_t{part.first} * params_.head_dim;
    backend_.encoders()->rotate_rows({rotation.own + at, rotation.partner + at, params_.rope_style, section},
                                     part.n_rows, x + part.at * dim, dim, n_heads, params_.head_dim);
  });
}

const float* TextEncoder::current_bias() const {
  if (biases_.empty()) return nullptr;
  const auto layer = static_cast<size_t>(layer_);
  const bool own = layer < biases_.size() && !biases_[layer].empty();
  return biases_[own ? layer : 0].data() + params_.max_tokens - 1;
}

EncoderKeys TextEncoder::keys_of(const Text& text) const {
  return {keys_ + text.keys_at, rows_of(text.tokens.size()), params_.n_kv_heads, params_.head_dim};
}

void TextEncoder::store_keys(int first, int count) {
  const TextEncoderLayer& own = current();
  const float* const input = norm_before(own.attention_norm, row(first), count);
  const MatmulTarget targets[] = {
      {.weight = own.k.get(), .out = k_, .out_stride = params_.kv_dim(), .bias = own.k_bias},
      {.weight = own.v.get(), .out = v_, .out_stride = params_.kv_dim(), .bias = own.v_bias}};
  multiply(targets, input, count);
  normalize_qk(own.k_norm, params_.n_kv_heads, count, k_);
  rotate(first, count, params_.n_kv_heads, k_);
  for_parts(first, count, [&](const Part& part) {
    const int64_t at = part.at * params_.kv_dim();
    backend_.encoders()->store_encoder_keys(keys_of(part.text), k_ + at, v_ + at, params_.kv_dim(), part.first,
                                            part.n_rows);
  });
}

void TextEncoder::run_layer(int first, int count) {
  const TextEncoderLayer& own = current();
  const HyperParams& base = params_.base;
  const RowCount rows = RowCount::fixed(count);
  float* const x = row(first);
  attend(first, count, norm_before(own.attention_norm, x, count));
  project(*own.out, own.out_bias, attended_, count, branch_);
  if (params_.pre_norms) {
    add_branch(branch_, own.attention_branch, count, x);
    feed_forward(count, norm_before(own.ffn_norm, x, count), branch_);
    add_branch(branch_, own.ffn_branch, count, x);
    return;
  }
  backend_.add_rows(branch_, x, 1.0f, nullptr, rows, base.n_embd);
  if (current_params().second_norm) {
    apply_norm(base, own.attention_norm, backend_, branch_, rows, base.n_embd, branch_);
    backend_.add_rows(branch_, x, 1.0f, nullptr, rows, base.n_embd);
    apply_norm(base, own.second_norm, backend_, branch_, rows, base.n_embd, x);
  } else {
    apply_norm(base, own.attention_norm, backend_, branch_, rows, base.n_embd, x);
  }
  feed_forward(count, x, branch_);
  backend_.add_rows(branch_, x, 1.0f, nullptr, rows, base.n_embd);
  apply_norm(base, own.ffn_norm, backend_, branch_, rows, base.n_embd, x);
}

// Adds the output `branch` of a block to the residual stream `x`, after normalizing it if the model has branch norms.
// `branch` may be overwritten.
void TextEncoder::add_branch(const float* branch, const NormWeights& branch_norm, int count, float* x) {
  const RowCount rows = RowCount::fixed(count);
  if (branch_norm.weight != nullptr)
    apply_norm(params_.base, branch_norm, backend_, branch, rows, params_.base.n_embd, branch_);
  backend_.add_rows(x, branch_, 1.0f, nullptr, rows, params_.base.n_embd);
}

void TextEncoder::attend(int first, int count, const float* input) {
  const TextEncoderLayer& own = current();
  project(*own.q, own.q_bias, input, count, q_);
  normalize_qk(own.q_norm, params_.n_heads, count, q_);
  rotate(first, count, params_.n_heads, q_);
  for_parts(first, count, [&](const Part& part) {
    const int length = part.text.n_rows();
    starts_.clear();
    limits_.clear();
    for (int position = part.first; position < part.first + part.n_rows; ++position) {
      const bool windowed = current_params().windowed;
      starts_.push_back(windowed ? std::max(0, position - params_.window_reach) : 0);
      const int end = params_.causal ? position + 1 : length;
      limits_.push_back(windowed ? std::min(end, position + params_.window_reach + 1) : end);
    }
    const EncoderKeys keys = keys_of(part.text);
    backend_.encoders()->attend_rows({.keys = keys,
                                      .q = q_ + part.at * params_.q_dim(),
                                      .stride = params_.q_dim(),
                                      .starts = starts_.data(),
                                      .limits = limits_.data(),
                                      .n_rows = part.n_rows,
                                      .scale = params_.attention_scale,
                                      .out = attended_ + part.at * params_.q_dim(),
                                      .n_heads = params_.n_heads,
                                      .bias = current_bias(),
                                      .bias_stride = 2 * int64_t{params_.max_tokens} - 1,
                                      .first_position = part.first});
  });
}

void TextEncoder::feed_forward(int count, const float* input, float* out) {
  const TextEncoderLayer& own = current();
  const RowCount rows = RowCount::fixed(count);
  if (current_params().mixture) {
    project(*own.router, nullptr, input, count, router_);
    const Mixture mixture{.shape = mixture_of(params_),
                          .gate = nullptr,
                          .up = own.expert_up.get(),
                          .down = own.expert_down.get(),
                          .activation = params_.activation,
                          .router = params_.base.experts.router};
    return backend_.mixture(mixture, router_, input, rows, out, false);
  }
  if (params_.network == EncoderNetwork::kPlain) {
    project(*own.up, own.up_bias, input, count, up_);
    if (params_.relu)
      backend_.encoders()->clamp(up_, int64_t{count} * params_.n_ff, 0.0f, INFINITY);
    else
      backend_.activate(params_.activation, up_, rows, params_.n_ff);
  } else {
    const MatmulTarget targets[] = {
        {.weight = own.gate.get(), .out = gate_, .out_stride = params_.n_ff, .bias = own.gate_bias},
        {.weight = own.up.get(), .out = up_, .out_stride = params_.n_ff, .bias = own.up_bias}};
    multiply(targets, input, count);
    backend_.gated(params_.activation, gate_, up_, rows, params_.n_ff, up_);
  }
  project(*own.down, own.down_bias, up_, count, out);
}

void TextEncoder::pool() {
  const HyperParams& base = params_.base;
  for (size_t i = 0; i < texts_.size(); ++i) {
    const Text& text = texts_[i];
    if (!params_.final_norm_name.empty()) {
      backend_.begin_step({.model = this,
                           .tokens = {},
                           .logit_rows = {},
                           .segment_lists = {},
                           .max_rows = sizes_.slice_rows,
                           .recordable = false});
      apply_norm(base, weights_.final_norm, backend_, row(text.first_row), RowCount::fixed(text.n_rows()), base.n_embd,
                 row(text.first_row));
      backend_.end_step();
    }
    PooledText pooled;
    pooled.add(head_, row(text.first_row), 0, text.n_rows(), text.n_rows());
    results_[i] = std::move(pooled).finish(head_);
  }
}

}  // namespace monolith
