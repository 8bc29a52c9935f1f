// Tests attention on the CUDA backend. Results are compared with double precision. A token's result is bit-identical
// regardless of how its sequence is divided into chunks, split across workers or batched. Runs in the emulator, and on
// a GPU if there is one: no test reads device memory directly.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backend/cuda/attention/attention.h"
#include "emulator/emulator.h"
#include "backend/cuda/kv_codec.h"
#include "check.h"

using namespace monolith;
using namespace monolith::cuda;

namespace {

struct Shape {
  int group, n_kv_heads, dim;
  AttentionParams params;
  bool sinks = false;
  KvType type = KvType::kF16;
};

// A sequence with its queries, keys and values, each [position][head][dim]. Keys and values are rounded as in the KV
// pages.
struct Sequence {
  std::vector<float> q, k, v;
  std::vector<int32_t> pages;
  int written = 0;  // Number of positions in the KV cache.
  int length = 0;
};

struct Piece {
  int sequence, first, n;
};

class Bench {
 public:
  Bench(const Shape& shape, const std::vector<int>& lengths, unsigned seed) : shape_(shape), random_(seed) {
    auto opened = Runtime::open(0);
    runtime_ = std::move(*opened);
    int n_pages = 3;
    for (const int length : lengths) n_pages += (length + kPageTokens - 1) / kPageTokens;
    auto cache =
        CudaKvCache::create(*runtime_, KvShape::of_equal_layers(2, shape.n_kv_heads, shape.dim, n_pages, shape.type));
    cache_ = std::move(*cache);
    std::vector<int32_t> numbers(static_cast<size_t>(n_pages));
    for (int i = 0; i < n_pages; ++i) numbers[static_cast<size_t>(i)] = i;
    std::ranges::shuffle(numbers, random_);
    size_t next = 0;
    for (const int length : lengths) {
      Sequence s;
      s.length = length;
      const auto positions = static_cast<size_t>(length), dim = static_cast<size_t>(shape.dim);
      s.q = numbers_of(positions * dim * static_cast<size_t>(n_heads()), 1.3f);
      s.k = numbers_of(positions * dim * static_cast<size_t>(shape.n_kv_heads), 1.0f);
      s.v = numbers_of(positions * dim * static_cast<size_t>(shape.n_kv_heads), 1.0f);
      for (int p = 0; p < length; p += kPageTokens) s.pages.push_back(numbers[next++]);
      sequences_.push_back(std::move(s));
    }
    // Fills the pages with 0xff bytes, so that memory that has not been written yet contains NaN.
    runtime_->fill(cache_->view(0).data + kSparePage * cache_->view(0).page_bytes, 0xff, cache_->bytes);
    tables_ = std::make_unique<StepTables>(*runtime_);
    tables_->set_kv_heads(shape.n_kv_heads);
    CHECK(tables_->reserve(kRows, 8192).ok());
    scratch_ = std::make_unique<AttentionScratch>(*runtime_);
    CHECK(scratch_->reserve(row_values()).ok());
    if (shape.sinks) {
      // Each sink is about as large as all other weights combined, so omitting it would clearly change the results.
      sinks_ = numbers_of(static_cast<size_t>(n_heads()), 1.0f);
      for (float& sink : sinks_) sink += 6;
      auto* const sinks = static_cast<float*>(*runtime_->allocate_pinned(sinks_.size() * sizeof(float)));
      std::ranges::copy(sinks_, sinks);
      shape_.params.sinks = floats(n_heads());
      runtime_->upload(const_cast<float*>(shape_.params.sinks), sinks, sinks_.size() * sizeof(float));
    }
    q_ = floats(kRows * row_values());
    out_ = floats(kRows * row_values());
    host_ = static_cast<float*>(*runtime_->allocate_pinned(static_cast<size_t>(kRows * row_values()) * sizeof(float)));
    page_ = static_cast<unsigned char*>(*runtime_->allocate_pinned(static_cast<size_t>(shape.dim) * sizeof(float)));
  }

  int n_heads() const { return shape_.group * shape_.n_kv_heads; }
  int64_t row_values() const { return int64_t{n_heads()} * shape_.dim; }
  const Sequence& sequence(int i) const { return sequences_[static_cast<size_t>(i)]; }

  // Runs attention for a step that consists of the given chunks, in this order. Returns [token][head][dim].
  std::vector<float> run(const std::vector<Piece>& pieces, int padded_rows = 0) {
    std::vector<Segment> segments;
    std::vector<int32_t> tokens;
    for (const Piece& piece : pieces) {
      Sequence& s = sequences_[static_cast<size_t>(piece.sequence)];
      write(s, piece.first + piece.n);
      const int row = static_cast<int>(tokens.size());
      segments.push_back({row, piece.n, piece.first, s.pages.data()});
      std::memcpy(host_ + row * row_values(), s.q.data() + piece.first * row_values(),
                  static_cast<size_t>(piece.n * row_values()) * sizeof(float));
      tokens.insert(tokens.end(), static_cast<size_t>(piece.n), 0);
    }
    const auto n_rows = static_cast<int64_t>(tokens.size());
    runtime_->upload(q_, host_, static_cast<size_t>(n_rows * row_values()) * sizeof(float));
    runtime_->fill(out_, 0xff, static_cast<size_t>(kRows * row_values()) * sizeof(float));
    runtime_->fill(scratch_->values(), 0xff, AttentionScratch::bytes_for(row_values()));
    const std::span<const Segment> lists[] = {segments};
    tables_->send({.model = nullptr, .tokens = tokens, .logit_rows = {}, .segment_lists = lists, .max_rows = kRows},
                  padded_rows, kSparePage);
    CHECK(!recording_ || tables_->has_splits());
    if (recording_)
      runtime_->play(*recording_);
    else
      compute(segments);
    runtime_->download(host_, out_, static_cast<size_t>(kRows * row_values()) * sizeof(float));
    runtime_->synchronize();
    const auto count = static_cast<size_t>(n_rows * row_values());
    // Nothing is written beyond the outputs of the step's tokens.
    for (size_t i = static_cast<size_t>(std::max<int64_t>(n_rows, padded_rows) * row_values());
         i < static_cast<size_t>(kRows * row_values()); ++i)
      if (!std::isnan(host_[i])) {
        check::fail(__FILE__, __LINE__, "a row after the step's rows was written");
        break;
      }
    return {host_, host_ + count};
  }

  // Captures this step; later steps with `padded_rows` tokens replay it.
  void record(const std::vector<Piece>& pieces, int padded_rows) {
    std::vector<Segment> segments;
    for (const Piece& piece : pieces)
      segments.push_back(
          {static_cast<int>(segments.size()), piece.n, piece.first, sequence(piece.sequence).pages.data()});
    const std::vector<int32_t> tokens(pieces.size(), 0);
    const std::span<const Segment> lists[] = {segments};
    tables_->send({.model = nullptr, .tokens = tokens, .logit_rows = {}, .segment_lists = lists, .max_rows = kRows},
                  padded_rows, kSparePage);
    CHECK(tables_->has_splits());
    runtime_->begin_recording(true);
    compute(segments);
    auto recording = runtime_->end_recording();
    REQUIRE(recording.ok());
    recording_ = std::move(*recording);
    runtime_->synchronize();  // The upload of the tables is asynchronous, and the next step overwrites its source.
  }
  void forget_recording() { recording_.reset(); }

  // Returns the largest difference between a chunk's result and the result in double precision with queries rounded to
  // binary16.
  double error(const Piece& piece, const float* out) const {
    const Sequence& s = sequence(piece.sequence);
    const int dim = shape_.dim;
    const int64_t kv_values = int64_t{shape_.n_kv_heads} * dim;
    double worst = 0;
    std::vector<double> scores, sums(static_cast<size_t>(dim));
    for (int row = 0; row < piece.n; ++row)
      for (int head = 0; head < n_heads(); ++head) {
        const int position = piece.first + row, window = shape_.params.window;
        const int first = window > 0 ? std::max(0, position - window + 1) : 0;
        const float* const q = s.q.data() + position * row_values() + int64_t{head} * dim;
        const int64_t kv = int64_t{head / shape_.group} * dim;
        scores.clear();
        double largest = -std::numeric_limits<double>::infinity();
        for (int p = first; p <= position; ++p) {
          double score = 0;
          for (int d = 0; d < dim; ++d)
            score += static_cast<double>(half_to_float(float_to_half(q[d]))) *
                     s.k[static_cast<size_t>(p * kv_values + kv + d)];
          score *= shape_.params.scale;
          if (shape_.params.soft_cap > 0) score = shape_.params.soft_cap * std::tanh(score / shape_.params.soft_cap);
          scores.push_back(score);
          largest = std::max(largest, score);
        }
        double total = sinks_.empty() ? 0 : std::exp(sinks_[static_cast<size_t>(head)] - largest);
        std::ranges::fill(sums, 0.0);
        for (int p = first; p <= position; ++p) {
          const double weight = std::exp(scores[static_cast<size_t>(p - first)] - largest);
          total += weight;
          for (int d = 0; d < dim; ++d)
            sums[static_cast<size_t>(d)] += weight * s.v[static_cast<size_t>(p * kv_values + kv + d)];
        }
        for (int d = 0; d < dim; ++d) {
          const float got = out[row * row_values() + int64_t{head} * dim + d];
          const double off = std::abs(sums[static_cast<size_t>(d)] / total - got);
          worst = std::isnan(off) ? std::numeric_limits<double>::infinity() : std::max(worst, off);
        }
      }
    return worst;
  }

  // Computes the whole sequence in chunks of `n` tokens, each in a separate step.
  std::vector<float> run_all(int sequence_number, int n) {
    std::vector<float> all;
    for (int at = 0; at < sequence(sequence_number).length; at += n) {
      const auto part = run({{sequence_number, at, std::min(n, sequence(sequence_number).length - at)}});
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

  static constexpr int kRows = 320;

 private:
  void compute(std::span<const Segment> segments) {
    const AttentionLaunch call{tables_->find(segments), q_,   row_values(), n_heads(), cache_->view(1),
                               shape_.params,           out_, row_values()};
    attention(*runtime_, *scratch_, call, shape_.type);
  }
  float* floats(int64_t n) { return static_cast<float*>(*runtime_->allocate(static_cast<size_t>(n) * sizeof(float))); }
  std::vector<float> numbers_of(size_t n, float spread) {
    std::normal_distribution<float> normal(0, spread);
    std::vector<float> values(n);
    for (float& value : values) value = normal(random_);
    return values;
  }
  // Rounds a head's values at one position as in its KV page, and writes them to the page.
  void store(float* x, unsigned char* head, int slot) {
    const auto dim = static_cast<size_t>(shape_.dim), at = static_cast<size_t>(slot);
    const auto send = [&](unsigned char* to, size_t bytes) {
      runtime_->upload(to, page_, bytes);
      runtime_->synchronize();
    };
    if (shape_.type == KvType::kF32) {
      std::memcpy(page_, x, 4 * dim);
      return send(head + 4 * at * dim, 4 * dim);
    }
    if (shape_.type == KvType::kF16) {
      for (size_t d = 0; d < dim; ++d) {
        const uint16_t half = float_to_half(x[d]);
        x[d] = half_to_float(half);
        std::memcpy(page_ + 2 * d, &half, 2);
      }
      return send(head + 2 * at * dim, 2 * dim);
    }
    const auto blocks = codec::encode_row(shape_.type, x, shape_.dim);
    size_t d = 0;
    for (const codec::Block& block : blocks)
      for (const unsigned char code : block.codes) {
        page_[d] = code;
        x[d] = static_cast<float>(codec::decode(shape_.type, code, block.scale));
        // Tensor cores read binary16.
        if (attention_form(shape_.type, shape_.dim, row_values(), row_values()) == AttentionForm::kWalk)
          x[d] = half_to_float(float_to_half(x[d]));
        ++d;
      }
    send(head + at * dim, dim);
    for (size_t b = 0; b < blocks.size(); ++b) {
      std::memcpy(page_, &blocks[b].scale, 2);
      send(head + kPageTokens * dim + 2 * (b * kPageTokens + at), 2);
    }
  }
  // Writes keys and values up to `end` in the same format as rope_and_store.
  void write(Sequence& s, int end) {
    const KvView view = cache_->view(1);
    const int64_t kv_values = int64_t{shape_.n_kv_heads} * shape_.dim;
    for (; s.written < end; ++s.written)
      for (int head = 0; head < shape_.n_kv_heads; ++head)
        for (const bool values : {false, true}) {
          std::vector<float>& from = values ? s.v : s.k;
          const int64_t page = s.pages[static_cast<size_t>(s.written / kPageTokens)];
          store(from.data() + s.written * kv_values + int64_t{head} * shape_.dim,
                view.data + page * view.page_bytes + (values ? view.values : 0) + head * view.head_bytes,
                s.written % kPageTokens);
        }
  }

  Shape shape_;
  std::mt19937 random_;
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<CudaKvCache> cache_;
  std::unique_ptr<StepTables> tables_;
  std::unique_ptr<AttentionScratch> scratch_;
  std::vector<Sequence> sequences_;
  std::vector<float> sinks_;
  std::unique_ptr<Recording> recording_;
  float *q_ = nullptr, *out_ = nullptr, *host_ = nullptr;
  unsigned char* page_ = nullptr;
};

bool same_bits(const float* a, const float* b, int64_t n) {
  return std::memcmp(a, b, static_cast<size_t>(n) * sizeof(float)) == 0;
}

std::string describe(const Shape& shape) {
  return std::to_string(shape.n_kv_heads) + " x " + std::to_string(shape.group) + " heads of " +
         std::to_string(shape.dim) + ", window " + std::to_string(shape.params.window) + ", cap " +
         std::to_string(shape.params.soft_cap) +
         (shape.type == KvType::kF16   ? ""
          : shape.type == KvType::kF32 ? ", f32"
          : shape.type == KvType::kFp8 ? ", fp8"
                                       : ", q8_0") +
         (shape.sinks ? ", sinks" : "");
}

constexpr double kTolerance = 1.5e-3;

}  // namespace

TEST(cuda_attention_is_correct_and_does_not_depend_on_chunks) {
  const Shape shapes[] = {
      {4, 1, 64, {.scale = 0.125f}},
      {1, 2, 80, {.scale = 0.11f, .window = 20}},
      {3, 1, 96, {.scale = 0.1f, .window = 133}, true},
      {7, 1, 64, {.scale = 0.125f, .window = 0, .soft_cap = 2.0f}},
      {8, 1, 128, {.scale = 0.09f}},
      {2, 1, 256, {.scale = 0.0625f, .window = 0, .soft_cap = 30.0f}},
      {17, 1, 64, {.scale = 0.2f, .window = 40}},
      // Tests 8-bit pages with every head size that the tensor core kernel supports.
      {2, 1, 64, {.scale = 0.125f}, false, KvType::kFp8},
      {1, 2, 80, {.scale = 0.11f, .window = 20}, true, KvType::kFp8},
      {1, 1, 96, {.scale = 0.1f, .window = 133}, false, KvType::kFp8},
      {2, 1, 128, {.scale = 0.09f}, true, KvType::kFp8},
      {2, 1, 256, {.scale = 0.0625f, .window = 0, .soft_cap = 30.0f}, false, KvType::kFp8},
      {4, 1, 64, {.scale = 0.2f, .window = 40}, true, KvType::kQ8_0},
      {2, 1, 80, {.scale = 0.11f}, false, KvType::kQ8_0},
      {2, 1, 96, {.scale = 0.1f, .window = 0, .soft_cap = 2.0f}, false, KvType::kQ8_0},
      {2, 1, 128, {.scale = 0.09f, .window = 133}, true, KvType::kQ8_0},
      {2, 1, 256, {.scale = 0.0625f}, true, KvType::kQ8_0},
      // Tests shapes for which the scalar attention kernel is used.
      {1, 2, 50, {.scale = 0.14f, .window = 40}, true},
      {1, 1, 64, {.scale = 0.125f}, true, KvType::kF32},
      {2, 1, 50, {.scale = 0.14f, .window = 40, .soft_cap = 2.0f}, true, KvType::kFp8},
      {1, 2, 33, {.scale = 0.17f}, true, KvType::kQ8_0},
  };
  using enum emulator::Order;
  unsigned seed = 1;
  for (const Shape& shape : shapes) {
    Bench bench(shape, {shape.dim > 96 || shape.type != KvType::kF16 ? 133 : 150}, seed++);
    const int length = bench.sequence(0).length;
    emulator::set_order(kAscending);
    const std::vector<float> whole = bench.run_all(0, length);
    const double error = bench.error({0, 0, length}, whole.data());
    check::note(describe(shape) + ": " + std::to_string(error));
    if (!(error < kTolerance)) check::fail(__FILE__, __LINE__, describe(shape) + ": off by " + std::to_string(error));
    emulator::set_order(kDescending);
    const std::vector<float> seventeens = bench.run_all(0, 17);
    CHECK(same_bits(whole.data(), seventeens.data(), length * bench.row_values()));
    emulator::set_order(kShuffled);
    // Some chunks have five tokens, and at the edges of pages and chunks there are single tokens.
    for (int at = 0; at + 5 <= length; at += shape.type == KvType::kF16 ? 25 : 41) {
      const auto five = bench.run({{0, at, 5}});
      CHECK(same_bits(whole.data() + at * bench.row_values(), five.data(), 5 * bench.row_values()));
    }
    for (const int at : {0, 1, 15, 16, 17, 63, 64, 127, 128, length - 1}) {
      const auto one = bench.run({{0, at, 1}});
      CHECK(same_bits(whole.data() + at * bench.row_values(), one.data(), bench.row_values()));
    }
  }
  emulator::set_order(kAscending);
}

TEST(cuda_attention_of_long_and_short_sequences_in_one_step) {
  unsigned seed = 77;
  for (const KvType type : {KvType::kF16, KvType::kFp8, KvType::kQ8_0}) {
    const int window = seed++ % 2 == 0 ? 700 : 0;
    const Shape shape{type == KvType::kQ8_0 ? 2 : 4, 2, 64, {.scale = 0.125f, .window = window}, window > 0, type};
    const std::vector<int> lengths = {2300, 1, 40, 2180, 129, 2049, 2050, 2300, 16, 2200};
    Bench bench(shape, lengths, seed);
    const auto last = [&](int i) { return Piece{i, lengths[static_cast<size_t>(i)] - 1, 1}; };
    // Each sequence runs alone, so that its chunks are distributed to the workers one by one.
    std::vector<std::vector<float>> alone;
    for (int i = 0; i < static_cast<int>(lengths.size()); ++i) {
      alone.push_back(bench.run({last(i)}));
      const double error = bench.error(last(i), alone.back().data());
      if (!(error < kTolerance)) check::fail(__FILE__, __LINE__, describe(shape) + ": off by " + std::to_string(error));
    }
    const auto check_rows = [&](const std::vector<int>& sequences, int padded) {
      std::vector<Piece> pieces;
      for (const int i : sequences) pieces.push_back(last(i));
      const auto rows = bench.run(pieces, padded);
      for (size_t r = 0; r < sequences.size(); ++r)
        CHECK(same_bits(rows.data() + static_cast<int64_t>(r) * bench.row_values(),
                        alone[static_cast<size_t>(sequences[r])].data(), bench.row_values()));
    };
    check_rows({1, 2, 4, 0, 8}, 8);                  // Splits a token's attention by chunks.
    check_rows({3, 0, 5, 6, 7}, 0);                  // Splits by groups of chunks, one worker per group.
    check_rows({9, 8, 7, 6, 5, 4, 3, 2, 1, 0}, 16);  // Does not split a token's attention.
    // The step is captured with short sequences and replayed with long ones, whose chunks are distributed differently.
    // In both cases, the attention of at least one token is split.
    bench.record({{0, 3, 1}, {4, 128, 1}, {2, 17, 1}}, 4);
    check_rows({0, 1, 2}, 4);
    check_rows({3, 7, 9}, 4);
    bench.forget_recording();
    // Some tokens are decoded in the same step as prompts. The same tokens are also computed at the end of a prompt
    // chunk, by the tile kernel.
    const auto mixed = bench.run({{0, 2270, 30}, last(3), {2, 0, 40}, last(1), {5, 2045, 4}});
    const auto row = [&](int r) { return mixed.data() + r * bench.row_values(); };
    CHECK(same_bits(row(29), alone[0].data(), bench.row_values()));
    CHECK(same_bits(row(30), alone[3].data(), bench.row_values()));
    CHECK(same_bits(row(70), alone[2].data(), bench.row_values()));
    CHECK(same_bits(row(71), alone[1].data(), bench.row_values()));
    CHECK(same_bits(row(75), alone[5].data(), bench.row_values()));
    CHECK(bench.error({0, 2270, 30}, row(0)) < kTolerance);
    CHECK(bench.error({5, 2045, 4}, row(72)) < kTolerance);
  }
}

TEST(cuda_attention_kernel_choice_and_work_shares) {
  CHECK(attention_form(KvType::kF16, 128, 4096, 4096) == AttentionForm::kWalk);
  CHECK(attention_form(KvType::kFp8, 128, 4096, 4096) == AttentionForm::kWalk);
  CHECK(attention_form(KvType::kQ8_0, 80, 4096, 4096) == AttentionForm::kWalk);
  CHECK(attention_form(KvType::kF32, 128, 4096, 4096) == AttentionForm::kPlain);
  CHECK(attention_form(KvType::kF16, 72, 4096, 4096) == AttentionForm::kPlain);
  CHECK(attention_form(KvType::kF16, 64, 4098, 4096) == AttentionForm::kPlain);
  for (const int warps : {2, 8})
    for (int group = 1; group <= 40; ++group) {
      const TileShare share = tile_share(group, warps);
      CHECK(share.heads * share.warps_per_head <= warps);
      CHECK(share.heads * share.blocks_per_group >= group);
      CHECK(share.tokens == 16 * share.warps_per_head);
      CHECK(share.tokens * share.blocks_per_tile >= kTileTokens);
    }
}

TEST(cuda_attention_work_covers_every_row_once) {
  CHECK(split_for(8, 8, 1024) == RowSplit::kWhole);
  CHECK(split_for(8, 7, 1024) == RowSplit::kChunks);
  // Not split: there is not enough room for one partial result per chunk, and there is only one group.
  CHECK(split_for(8, 7, 7) == RowSplit::kWhole);
  CHECK(split_for(40, 16, 1024) == RowSplit::kGroups);
  CHECK(split_for(40, 15, 1024) == RowSplit::kChunks);
  CHECK(split_for(40, 15, 39) == RowSplit::kGroups);
  CHECK(split_for(40, 15, 2) == RowSplit::kWhole);
  std::mt19937 random(5);
  AttentionPlanner planner;
  planner.reserve(600);
  for (int round = 0; round < 60; ++round) {
    std::vector<DeviceSegment> segments;
    int rows = 0;
    while (rows < 400 && segments.size() < 1 + random() % 40) {
      const int n = random() % 3 == 0 ? static_cast<int>(random() % 200) + 1 : 1;
      const int first = static_cast<int>(random() % (round % 3 == 0 ? 300000 : 3000));
      segments.push_back({rows, n, first, static_cast<int32_t>(random() % 1000)});
      rows += n;
    }
    planner.plan(segments, 1 + static_cast<int>(random() % 8), 528);
    std::vector<int> seen(static_cast<size_t>(rows), 0);  // Counts how many chunks the plan contains for each token.
    std::vector<int> slots(kMaxSlots, 0);
    for (const AttentionItem& item : planner.items()) {
      CHECK(item.first_chunk < item.end_chunk);
      seen[static_cast<size_t>(item.row)] += item.end_chunk - item.first_chunk;
      if (item.slot >= 0) {
        CHECK(item.slot < kMaxSlots);
        ++slots[static_cast<size_t>(item.slot)];
        CHECK(item.first_chunk / kGroupChunks == (item.end_chunk - 1) / kGroupChunks);
      }
    }
    CHECK(std::ranges::all_of(slots, [](int n) { return n <= 1; }));
    std::vector<int> tokens(segments.size(), 0);
    for (const AttentionTile& tile : planner.tiles())
      tokens[static_cast<size_t>(tile.segment)] +=
          std::min(kTileTokens, segments[static_cast<size_t>(tile.segment)].n_tokens - tile.first_token);
    for (size_t i = 0; i < segments.size(); ++i) {
      const DeviceSegment& segment = segments[i];
      CHECK_EQ(tokens[i], segment.n_tokens > kFewTokens ? segment.n_tokens : 0);
      for (int row = 0; row < segment.n_tokens; ++row)
        CHECK_EQ(seen[static_cast<size_t>(segment.first_row + row)],
                 segment.n_tokens > kFewTokens ? 0 : (segment.first_position + row) / kChunkPositions + 1);
    }
    CHECK((planner.items().size_bytes() + planner.splits().size_bytes() + planner.tiles().size_bytes()) / 4 <=
          AttentionPlanner::most_numbers(600));
  }
}
