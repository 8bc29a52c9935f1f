// Tests compressed attention on the CUDA backend. Pooled rows are bit-identical to rows pooled on the CPU, and
// attention to them is compared with double precision. Results must be bit-identical for any division into chunks, any
// state slots and any order of threads. Hyper-connections are compared with double precision.
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/cpu_backend_impl.h"
#include "backend/cuda/cuda_backend.h"
#include "check.h"
#include "emulator/emulator.h"
#include "support/block_cases.h"

using namespace monolith;
using namespace monolith::testing;
using namespace monolith::testing::blocks;

namespace {

class Device {
 public:
  Device() {
    auto made = make_cuda_backend({});
    if (made) backend_ = std::move(*made);
    CHECK(backend_ && backend_->reserve(kRows, kHeads * kDim, 6 * kPageTokens, kDim).ok());
  }
  Backend& backend() { return *backend_; }
  float* put(const std::vector<float>& values) {
    float* const at = *backend_->allocate(static_cast<int64_t>(values.size()));
    backend_->write_floats(at, values.data(), static_cast<int64_t>(values.size()));
    return at;
  }
  std::vector<float> get(const float* at, size_t n) {
    std::vector<float> values(n);
    backend_->wait();
    backend_->read_floats(values.data(), at, static_cast<int64_t>(n));
    return values;
  }

 private:
  std::unique_ptr<Backend> backend_;
};

struct Found {
  std::vector<float> attended, pooled;
};

Found run(const Sequence& s, std::vector<int> cuts, bool apart, KvType type) {
  Device device;
  Backend& backend = device.backend();
  auto cache = backend.kv_cache(shape_of(s, type));
  if (!cache) return check::fail(__FILE__, __LINE__, cache.error().message), Found{};
  CHECK_EQ((*cache)->bytes, backend.kv_cache_bytes(shape_of(s, type)));
  const std::vector<int32_t> pages = {3, 0, 5, 1, 4};
  const std::vector<float> frequency = frequencies();
  const RopeParams rope{RopeStyle::kAdjacentPairs, kRotated, frequency.data(), 1.0f};
  const int64_t stride = (s.pool.state_floats() + 15) / 16 * 16;
  const LayerSlots slots{device.put(std::vector<float>(static_cast<size_t>(6 * stride), 1e30f)), stride};
  BlockPool pool = s.pool;
  pool.bias = device.put(s.bias);
  const float* const values = device.put(s.values);
  const float* const scores = device.put(s.scores);
  const float* const norm = device.put(s.norm);
  const float* const q = device.put(s.q);
  const float* const sinks = device.put(s.sinks);
  const float* const index_q = device.put(s.index_q);
  const float* const index_weights = device.put(s.index_weights);
  float* const near = device.put(s.near);
  float* const rows = device.put(std::vector<float>(kRows * kDim));
  float* const again = device.put(std::vector<float>(kRows * kDim));
  float* const out = device.put(std::vector<float>(kRows * kHeads * kDim));
  float* const chosen = device.put(std::vector<float>(kRows * static_cast<size_t>(s.most())));
  Found found;
  found.pooled.resize(kRows * kDim);
  for (Segment segment : pieces(kRows, std::move(cuts), apart, pages.data())) {
    // Each chunk is a separate step, because all tokens of a step must be in segments.
    const int64_t begin = std::exchange(segment.first_row, 0), width = s.pool.width();
    const auto n = static_cast<size_t>(segment.n_tokens);
    const std::span<const Segment> one(&segment, 1);
    backend.rope_and_store_latents({{}, one, {}, near + begin * kDim, kDim, 0, **cache});
    backend.pool_blocks(pool, one, slots, values + begin * width, scores + begin * width, rows);
    const std::vector<float> pooled = device.get(rows, n * kDim);
    for (int i = 0; i < segment.n_tokens; ++i)
      if ((segment.first_position + i + 1) % s.block == 0)
        std::copy_n(pooled.begin() + i * kDim, kDim, found.pooled.begin() + (begin + i) * kDim);
    backend.write_floats(again, pooled.data(), static_cast<int64_t>(pooled.size()));
    backend.store_blocks({rope, s.block, norm, kEps, 1}, one, rows, **cache);
    backend.store_blocks({rope, s.block, norm, kEps, 2}, one, again, **cache);
    const bool chooses = s.pool.overlap;
    if (chooses)
      backend.select_positions({index_q + begin * kIndexHeads * kDim, index_weights + begin * kIndexHeads, kIndexHeads,
                                2, s.most(), s.block},
                               one, **cache, chosen);
    backend.attention({one,
                       q + begin * kHeads * kDim,
                       kHeads * kDim,
                       kHeads,
                       0,
                       **cache,
                       {.scale = 0.2f,
                        .window = kWindow,
                        .sinks = sinks,
                        .chosen = chosen,
                        .most_chosen = chooses ? s.most() : 0,
                        .block = s.block,
                        .block_layer = 1},
                       out + begin * kHeads * kDim,
                       kHeads * kDim});
  }
  found.attended = device.get(out, kRows * kHeads * kDim);
  return found;
}

// Pools the blocks on the CPU, at each token where a block ends.
std::vector<float> pooled_by_processor(const Sequence& s) {
  CpuBackend ops(CpuIsa::kPlain, 1);
  Slots slots(s.pool.state_floats());
  std::vector<float> rows(kRows * kDim);
  const Segment whole{0, kRows, 0, nullptr, kNoSlot, 0};
  ops.pool_blocks(s.pool, {&whole, 1}, slots.view, s.values.data(), s.scores.data(), rows.data());
  return rows;
}

double furthest(const std::vector<float>& found, const std::vector<double>& expected) {
  double most = 0;
  for (size_t i = 0; i < expected.size(); ++i) most = std::max(most, std::abs(found[i] - expected[i]));
  return found.size() == expected.size() && std::isfinite(most) ? most : INFINITY;
}

}  // namespace

TEST(cuda_compressed_attention_matches_double_with_any_chunks) {
  using enum cuda::emulator::Order;
  for (const auto& [block, overlaps] : {std::pair{4, true}, std::pair{32, false}}) {
    const Sequence s(block, overlaps);
    const std::string what = "blocks of " + std::to_string(block);
    const Found whole = run(s, {}, false, KvType::kF32);
    const double off = furthest(whole.attended, exact(s));
    check::note(what + ": " + std::to_string(off));
    if (!(off < 2e-5)) check::fail(__FILE__, __LINE__, what + " are off by " + std::to_string(off));
    if (!same_bits(whole.pooled, pooled_by_processor(s)))
      check::fail(__FILE__, __LINE__, what + " are pooled differently");
    for (const auto order : {kAscending, kShuffled})
      for (const std::vector<int>& cuts : kBlockCuts)
        for (const bool apart : {false, true}) {
          cuda::emulator::set_order(order);
          const Found found = run(s, cuts, apart, KvType::kF32);
          if (!same_bits(found.attended, whole.attended) || !same_bits(found.pooled, whole.pooled))
            check::fail(__FILE__, __LINE__, what + ": different bits when cut at " + std::to_string(cuts[0]));
        }
    cuda::emulator::set_order(kAscending);
    for (const KvType type : {KvType::kF16, KvType::kQ8_0, KvType::kFp8}) {
      const Found kept = run(s, {}, false, type);
      double squares = 0;
      const std::vector<double> expected = exact(s);
      for (size_t i = 0; i < expected.size(); ++i) squares += std::pow(kept.attended[i] - expected[i], 2);
      // Results need not be equal everywhere, because the indexer may decide a near tie differently.
      CHECK(std::sqrt(squares / static_cast<double>(expected.size())) < (type == KvType::kF16 ? 2e-2 : 1.5e-1));
      CHECK(same_bits(run(s, {7, 33}, true, type).attended, kept.attended));
    }
  }
}

TEST(cuda_hyper_connections_match_double) {
  const StreamCase one;
  Device device;
  HyperConnections mix = one.mix;
  mix.scale = device.put(one.scale);
  mix.base = device.put(one.base);
  float* const numbers = device.put(one.logits);
  float* const streams = device.put(one.start);
  float* const read = device.put(std::vector<float>(one.result.size()));
  device.backend().hyper_connection_weights(mix, numbers, RowCount::fixed(StreamCase::kRows));
  device.backend().read_streams(mix, numbers, streams, RowCount::fixed(StreamCase::kRows), StreamCase::kWidth, read);
  device.backend().write_streams(mix, numbers, device.put(one.result), RowCount::fixed(StreamCase::kRows),
                                 StreamCase::kWidth, streams);
  one.check(device.get(read, one.result.size()), device.get(streams, one.start.size()));
}
