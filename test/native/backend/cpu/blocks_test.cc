// Tests compressed attention (blocks of positions pooled into rows, a sliding window and the indexer) and
// hyper-connections. Results are compared with double precision and between instruction sets. Results must also be
// bit-identical regardless of how a sequence is divided into chunks.
#include <cmath>
#include <string>
#include <vector>

#include "backend/cpu/ops/kernels.h"
#include "backend/cpu/cpu_backend_impl.h"
#include "check.h"
#include "support/block_cases.h"

using namespace monolith;
using namespace monolith::testing;
using namespace monolith::testing::blocks;

namespace {

std::vector<float> run(const Sequence& s, CpuIsa isa, int threads, std::vector<int> cuts, bool apart, KvType type) {
  auto cache = CpuKvCache::create(shape_of(s, type));
  CHECK(cache.ok());
  CpuBackend ops(isa, threads);
  CHECK(ops.reserve(kRows, kHeads * kDim, 6 * kPageTokens, kDim, {}).ok());
  const std::vector<int32_t> pages = {3, 0, 5, 1, 4};
  const std::vector<float> frequency = frequencies();
  const RopeParams rope{RopeStyle::kAdjacentPairs, kRotated, frequency.data(), 1.0f};
  Slots slots(s.pool.state_floats());
  std::vector<float> out(kRows * kHeads * kDim), chosen(kRows * static_cast<size_t>(s.most()));
  for (const Segment& segment : pieces(kRows, std::move(cuts), apart, pages.data())) {
    const std::span<const Segment> one(&segment, 1);
    std::vector<float> near = s.near, rows(kRows * kDim, NAN);
    ops.rope_and_store_latents({{}, one, {}, near.data(), kDim, 0, **cache});
    ops.pool_blocks(s.pool, one, slots.view, s.values.data(), s.scores.data(), rows.data());
    std::vector<float> again = rows;
    ops.store_blocks({rope, s.block, s.norm.data(), kEps, 1}, one, rows.data(), **cache);
    ops.store_blocks({rope, s.block, s.norm.data(), kEps, 2}, one, again.data(), **cache);
    const bool chooses = s.pool.overlap;
    if (chooses)
      ops.select_positions({s.index_q.data(), s.index_weights.data(), kIndexHeads, 2, s.most(), s.block}, one, **cache,
                           chosen.data());
    ops.attention({one,
                   s.q.data(),
                   kHeads * kDim,
                   kHeads,
                   0,
                   **cache,
                   {.scale = 0.2f,
                    .window = kWindow,
                    .sinks = s.sinks.data(),
                    .chosen = chosen.data(),
                    .most_chosen = chooses ? s.most() : 0,
                    .block = s.block,
                    .block_layer = 1},
                   out.data(),
                   kHeads * kDim});
  }
  return out;
}

}  // namespace

TEST(compressed_attention_matches_double_with_any_chunks_and_instruction_set) {
  for (const auto& [block, overlaps] : {std::pair{4, true}, std::pair{32, false}}) {
    const Sequence s(block, overlaps);
    const std::vector<double> expected = exact(s);
    std::vector<float> first;
    for (const CpuIsa isa : available_cpu_isas()) {
      const std::vector<float> whole = run(s, isa, 1, {}, false, KvType::kF32);
      for (size_t i = 0; i < expected.size(); ++i)
        if (!(std::abs(whole[i] - expected[i]) <= 2e-5))
          return check::fail(__FILE__, __LINE__,
                             "blocks of " + std::to_string(block) + ": value " + std::to_string(i) + " is " +
                                 std::to_string(whole[i]) + ", expected " + std::to_string(expected[i]));
      if (first.empty()) first = whole;
      CHECK(same_bits(whole, first));
      for (const std::vector<int>& cuts : kBlockCuts)
        for (const bool apart : {false, true}) CHECK(same_bits(run(s, isa, 3, cuts, apart, KvType::kF32), first));
    }
    for (const KvType type : {KvType::kF16, KvType::kQ8_0, KvType::kQ4_0, KvType::kQ5_0}) {
      const std::vector<float> whole = run(s, CpuIsa::kPlain, 1, {}, false, type);
      double squares = 0;
      for (size_t i = 0; i < expected.size(); ++i) squares += std::pow(whole[i] - expected[i], 2);
      // Results need not be equal everywhere, because the indexer may decide a near tie differently.
      CHECK(std::sqrt(squares / static_cast<double>(expected.size())) < (type == KvType::kF16    ? 2e-2
                                                                         : type == KvType::kQ8_0 ? 1e-1
                                                                                                 : 5e-1));
      for (const CpuIsa isa : available_cpu_isas()) CHECK(same_bits(run(s, isa, 2, {7, 33}, true, type), whole));
    }
  }
}

TEST(hyper_connections_match_double_on_every_instruction_set) {
  const StreamCase one;
  HyperConnections mix = one.mix;
  mix.scale = one.scale.data();
  mix.base = one.base.data();
  std::vector<float> first;
  for (const CpuIsa isa : available_cpu_isas()) {
    CpuBackend ops(isa, 2);
    std::vector<float> numbers = one.logits, streams = one.start, read(one.result.size());
    ops.hyper_connection_weights(mix, numbers.data(), RowCount::fixed(StreamCase::kRows));
    ops.read_streams(mix, numbers.data(), streams.data(), RowCount::fixed(StreamCase::kRows), StreamCase::kWidth,
                     read.data());
    ops.write_streams(mix, numbers.data(), one.result.data(), RowCount::fixed(StreamCase::kRows), StreamCase::kWidth,
                      streams.data());
    one.check(read, streams);
    streams.insert(streams.end(), read.begin(), read.end());
    if (first.empty()) first = streams;
    CHECK(same_bits(streams, first));
  }
}
