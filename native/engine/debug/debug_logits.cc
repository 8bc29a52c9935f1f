#include "engine/debug/debug_logits.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "formats/hf/model_file.h"

namespace monolith {
namespace {

constexpr int kMaxBatchTokens = 1 << 14;
constexpr int kMaxLogitRows = 16;  // Maximum number of logit rows per step; prompt chunks with more are shortened.
constexpr int64_t kMaxAnswerFloats = int64_t{1} << 28;  // Maximum number of floats in a result: 1 GiB of logits.

Error invalid(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

Status check_arguments(const HyperParams& params, const DebugLogitsOptions& options, std::span<const int32_t> ids,
                       std::span<const int32_t> positions, int continue_tokens) {
  if (options.max_batch_tokens < 1 || options.max_batch_tokens > kMaxBatchTokens) {
    return invalid("max_batch_tokens is " + std::to_string(options.max_batch_tokens) + ", expected 1 to " +
                   std::to_string(kMaxBatchTokens));
  }
  if (ids.empty()) return invalid("ids is empty, expected at least one token");
  if (continue_tokens < 0)
    return invalid("continue_tokens is " + std::to_string(continue_tokens) + ", expected 0 or more");
  if (options.max_context < 0)
    return invalid("max_context is " + std::to_string(options.max_context) + ", expected 0 or more");
  const bool is_asked = options.max_context > 0 && options.max_context < params.context_length;
  const int context = is_asked ? options.max_context : params.context_length;
  if (ids.size() + static_cast<size_t>(continue_tokens) > static_cast<size_t>(context)) {
    return Error{ErrorCode::kTooLong, std::to_string(ids.size()) + " ids and " + std::to_string(continue_tokens) +
                                          " tokens of continuation exceed " +
                                          (is_asked ? "max_context, " : "the model's context of ") +
                                          std::to_string(context)};
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= params.n_vocab) {
      return invalid("ids[" + std::to_string(i) + "] is " + std::to_string(ids[i]) + ", expected 0 to " +
                     std::to_string(params.n_vocab - 1));
    }
  }
  for (size_t i = 0; i < positions.size(); ++i) {
    if (positions[i] < 0 || static_cast<size_t>(positions[i]) >= ids.size()) {
      return invalid("positions[" + std::to_string(i) + "] is " + std::to_string(positions[i]) + ", expected 0 to " +
                     std::to_string(ids.size() - 1));
    }
  }
  if (static_cast<int64_t>(positions.size()) > kMaxAnswerFloats / params.n_vocab) {
    return invalid("positions requests " + std::to_string(positions.size()) + " times " +
                   std::to_string(params.n_vocab) + " logits, more than " + std::to_string(kMaxAnswerFloats));
  }
  return {};
}

// Runs a single sequence: feeds tokens to the model in order and returns the requested logits.
class SingleSequence {
 public:
  SingleSequence(Model& model) : model_(model), pages_(static_cast<size_t>(model.limits().n_pages)) {
    std::iota(pages_.begin(), pages_.end(), 0);
  }

  // Runs the model on `tokens` and returns the logits after the tokens at the indices `logit_rows`, shape
  // [logit_rows.size()][n_vocab].
  const float* feed(std::span<const int32_t> tokens, std::span<const int32_t> logit_rows) {
    const Segment segment{0, static_cast<int>(tokens.size()), position_, pages_.data(), position_ > 0 ? 0 : kNoSlot, 0};
    position_ += segment.n_tokens;
    return model_.forward({tokens, {&segment, 1}, logit_rows});
  }

  int position() const { return position_; }

 private:
  Model& model_;
  std::vector<int32_t> pages_;
  int position_ = 0;
};

Status check_finite(std::span<const float> logits, int position) {
  if (std::ranges::all_of(logits, [](float x) { return std::isfinite(x); })) return {};
  return Error{ErrorCode::kInternal, "a logit at position " + std::to_string(position) + " is not finite"};
}

DebugLogits::Continuation continue_greedily(SingleSequence& sequence, std::vector<float> logits, int n_tokens) {
  DebugLogits::Continuation result;
  for (int i = 0;; ++i) {
    const auto best = std::ranges::max_element(logits);
    const auto token = static_cast<int32_t>(best - logits.begin());
    result.tokens.push_back(token);
    result.logits.push_back(*best);
    if (i == n_tokens - 1) break;
    const int32_t row = 0;
    const float* next = sequence.feed({&token, 1}, {&row, 1});
    std::copy_n(next, logits.size(), logits.begin());
  }
  result.last = {sequence.position() - 1, std::move(logits)};
  return result;
}

Result<DebugLogits> compute_logits(const GgufFile& file, Backend& backend, const DebugLogitsOptions& options,
                                   std::span<const int32_t> ids, std::span<const int32_t> positions,
                                   int continue_tokens) {
  auto params = HyperParams::read(file);
  if (!params) return params.error();
  if (Status s = check_arguments(*params, options, ids, positions, continue_tokens); !s) return s.error();

  ModelLimits limits;
  limits.max_batch_tokens = options.max_batch_tokens;
  limits.max_logit_rows = std::min(kMaxLogitRows, options.max_batch_tokens);
  const int n_positions = static_cast<int>(ids.size()) + continue_tokens;
  limits.max_context = options.max_context > 0 ? std::min(options.max_context, params->context_length) : n_positions;
  limits.n_pages = (n_positions + kPageTokens - 1) / kPageTokens;
  limits.kv_type = options.kv_type;
  limits.n_slots = 1;
  auto model = Model::load(file, backend, limits, {});
  if (!model) return model.error();

  // Positions whose logits are needed, ascending, without duplicates.
  std::vector<int32_t> wanted(positions.begin(), positions.end());
  if (continue_tokens > 0) wanted.push_back(static_cast<int32_t>(ids.size()) - 1);
  std::ranges::sort(wanted);
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());

  const auto n_vocab = static_cast<size_t>(params->n_vocab);
  std::vector<PositionLogits> found;  // Logits found so far, in the order of `wanted`.
  SingleSequence sequence(**model);
  // Computes no positions after the last one whose logits are needed.
  while (found.size() < wanted.size()) {
    const int begin = sequence.position();
    const auto left = static_cast<int>(ids.size()) - begin;
    int n_tokens = std::min(options.max_batch_tokens, left);
    std::vector<int32_t> rows;
    for (size_t i = found.size(); i < wanted.size() && wanted[i] < begin + n_tokens; ++i) {
      if (static_cast<int>(rows.size()) == limits.max_logit_rows) {
        n_tokens = rows.back() + 1;
        break;
      }
      rows.push_back(wanted[i] - begin);
    }
    const float* logits = sequence.feed(ids.subspan(static_cast<size_t>(begin), static_cast<size_t>(n_tokens)), rows);
    for (size_t i = 0; i < rows.size(); ++i) {
      const std::span<const float> row(logits + i * n_vocab, n_vocab);
      if (Status s = check_finite(row, begin + rows[i]); !s) return s.error();
      found.push_back({begin + rows[i], {row.begin(), row.end()}});
    }
  }

  DebugLogits result;
  for (const int32_t position : positions) {
    const auto at = std::ranges::lower_bound(wanted, position) - wanted.begin();
    result.positions.push_back(found[static_cast<size_t>(at)]);
  }
  if (continue_tokens > 0) {
    result.continuation = continue_greedily(sequence, found.back().logits, continue_tokens);
    if (Status s = check_finite(result.continuation->last.logits, result.continuation->last.position); !s) {
      return s.error();
    }
  }
  return result;
}

}  // namespace

Result<DebugLogits> debug_logits(const std::string& path, const DebugLogitsOptions& options,
                                 std::span<const int32_t> ids, std::span<const int32_t> positions,
                                 int continue_tokens) {
  auto backend = make_cpu_backend(options.backend);
  if (!backend) return backend.error();
  return debug_logits(path, **backend, options, ids, positions, continue_tokens);
}

Result<DebugLogits> debug_logits(const std::string& path, Backend& backend, const DebugLogitsOptions& options,
                                 std::span<const int32_t> ids, std::span<const int32_t> positions,
                                 int continue_tokens) {
  return read_model_file(path, options.file, [&](const GgufFile& file) {
    return compute_logits(file, backend, options, ids, positions, continue_tokens);
  });
}

}  // namespace monolith
