// Tests 8-bit keys and values in device pages by comparing the output of rope_and_store with a double-precision codec.
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "emulator/emulator.h"
#include "backend/cuda/kv_codec.h"
#include "backend/cuda/attention/rope.h"
#include "check.h"

using namespace monolith;
using namespace monolith::cuda;

namespace {

constexpr int kMaxRows = 64;

// Stores keys and values without RoPE in shuffled pages, starting at position 3, and compares them with the codec.
class Store {
 public:
  Store(KvType type, int n_kv_heads, int dim) : type_(type), heads_(n_kv_heads), dim_(dim) {
    auto opened = Runtime::open(0);
    runtime_ = std::move(*opened);
    auto cache = CudaKvCache::create(*runtime_, KvShape::of_equal_layers(2, n_kv_heads, dim, 5, type));
    cache_ = std::move(*cache);
    tables_ = std::make_unique<StepTables>(*runtime_);
    CHECK(tables_->reserve(kMaxRows, 128).ok());
    const auto bytes = static_cast<size_t>(kMaxRows * width()) * sizeof(float);
    for (float*& at : device_) at = static_cast<float*>(*runtime_->allocate(bytes));
    for (float*& at : host_) at = static_cast<float*>(*runtime_->allocate_pinned(bytes));
    page_ = static_cast<unsigned char*>(*runtime_->allocate_pinned(cache_->bytes));
  }
  int64_t width() const { return int64_t{heads_} * dim_; }

  // `keys` and `values` have the shape [row][head][dim].
  void check(const std::vector<float>& keys, const std::vector<float>& values, const std::string& what) {
    const int n = static_cast<int>(static_cast<int64_t>(keys.size()) / width());
    const int32_t pages[] = {4, 1, 3, 0, 2};
    constexpr int kFirst = 3;
    const std::vector<int32_t> tokens(static_cast<size_t>(n), 0);
    const Segment segments[] = {{0, n, kFirst, pages}};
    const std::span<const Segment> lists[] = {segments};
    const KvView view = cache_->view(1);
    runtime_->fill(view.data, 0xff, 5 * static_cast<size_t>(view.page_bytes));
    tables_->send({.model = nullptr, .tokens = tokens, .logit_rows = {}, .segment_lists = lists, .max_rows = kMaxRows},
                  0, kSparePage);
    std::memcpy(host_[1], keys.data(), keys.size() * sizeof(float));
    std::memcpy(host_[2], values.data(), values.size() * sizeof(float));
    for (int i = 1; i < 3; ++i) runtime_->upload(device_[i], host_[i], keys.size() * sizeof(float));
    rope_and_store(
        *runtime_, {RopeStyle::kHalves, 0, nullptr}, nullptr,
        {tables_->find(segments), device_[0], width(), heads_, device_[1], width(), device_[2], width(), view, type_});
    runtime_->download(page_, view.data, 5 * static_cast<size_t>(view.page_bytes));
    runtime_->synchronize();
    int64_t wrong = 0, written = 0;
    for (int row = 0; row < n; ++row)
      for (int head = 0; head < heads_; ++head)
        for (const bool is_value : {false, true}) {
          const int position = kFirst + row, slot = position % kPageTokens;
          const float* const from = (is_value ? values : keys).data() + row * width() + int64_t{head} * dim_;
          const unsigned char* const own = page_ + pages[position / kPageTokens] * view.page_bytes +
                                           head * view.head_bytes + (is_value ? view.values : 0);
          const auto blocks = codec::encode_row(type_, from, dim_);
          int d = slot * dim_;
          for (size_t b = 0; b < blocks.size(); ++b) {
            uint16_t scale;
            std::memcpy(&scale, own + kPageTokens * dim_ + 2 * (b * kPageTokens + static_cast<size_t>(slot)), 2);
            written += 2;
            if (blocks[b].codes.empty()) {  // The reference block contains a NaN, so only its scale is compared.
              wrong += !std::isnan(half_to_float(scale));
              const int n_codes = std::min(kv_block(type_, dim_), (slot + 1) * dim_ - d);
              d += n_codes;
              written += n_codes;
              continue;
            }
            wrong += scale != blocks[b].scale;
            for (const unsigned char code : blocks[b].codes) wrong += own[d++] != code, ++written;
          }
        }
    if (wrong > 0) check::fail(__FILE__, __LINE__, what + ": " + std::to_string(wrong) + " numbers differ");
    // No other bytes of the pages were written.
    int64_t touched = 0;
    for (int64_t i = 0; i < 5 * view.page_bytes; ++i) touched += page_[i] != 0xff;
    if (touched > written) check::fail(__FILE__, __LINE__, what + ": other bytes of the pages were written");
  }

 private:
  KvType type_;
  int heads_, dim_;
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<CudaKvCache> cache_;
  std::unique_ptr<StepTables> tables_;
  float *device_[3] = {}, *host_[3] = {};
  unsigned char* page_ = nullptr;
};

const char* name(KvType type) { return type == KvType::kFp8 ? "fp8" : "q8_0"; }

}  // namespace

TEST(cuda_8bit_pages_match_the_codec) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 1);
  using enum emulator::Order;
  for (const KvType type : {KvType::kFp8, KvType::kQ8_0})
    // Values of heads with the last three sizes are processed one by one.
    for (const int dim : {64, 80, 128, 256, 96, 50, 33, 7}) {
      Store store(type, 2, dim);
      emulator::set_order(dim % 3 == 0 ? kDescending : dim % 3 == 1 ? kShuffled : kAscending);
      std::vector<float> keys(static_cast<size_t>(20 * store.width())), values(keys.size());
      for (size_t i = 0; i < keys.size(); ++i) {
        const auto row = static_cast<int>(static_cast<int64_t>(i) / store.width());
        // Tests numbers of every magnitude. At each position, some numbers are much larger than the others.
        keys[i] = std::ldexp(normal(random), 3 * row - 30) * (i % 17 == 0 ? 40.0f : 1.0f);
        values[i] = row % 5 == 0 ? 0.0f : std::exp(2 * normal(random)) * (i % 2 ? -1.0f : 1.0f);
      }
      store.check(keys, values, std::string(name(type)) + " of " + std::to_string(dim));
    }
  emulator::set_order(kAscending);
}

// Checks the codec itself with numbers in small steps: no code is nearer to a number than the one that the codec
// returns.
TEST(cuda_8bit_codec_gives_the_nearest_code) {
  for (double x = -448; x <= 448; x += 0.0625 + std::abs(x) / 64) {
    const double off = std::abs(codec::e4m3(codec::nearest_e4m3(x)) - x);
    for (int code = 0; code < 256; ++code)
      if (code % 128 != 0x7f) CHECK(off <= std::abs(codec::e4m3(static_cast<unsigned char>(code)) - x));
  }
}

// Tests the values of all codes and the midpoints between adjacent codes, together with one number that makes the scale
// 2^shift.
TEST(cuda_8bit_pages_round_to_nearest_even) {
  constexpr int kDim = 128;
  for (const int shift : {0, -14, 15, 5}) {
    Store store(KvType::kFp8, 1, kDim);
    std::vector<float> own, between;
    for (int code = 0; code < 0x7f; ++code) {
      const double value = std::ldexp(codec::e4m3(static_cast<unsigned char>(code)), shift - 8);
      own.push_back(static_cast<float>(code % 3 == 0 ? -value : value));
      const double next = std::ldexp(codec::e4m3(static_cast<unsigned char>(code < 0x7e ? code + 1 : code)), shift - 8);
      between.push_back(static_cast<float>(code % 4 == 1 ? -(value + next) / 2 : (value + next) / 2));
    }
    own.push_back(static_cast<float>(std::ldexp(1.75, shift)));
    between.push_back(own.back());
    store.check(own, between, "fp8 at 2^" + std::to_string(shift));
  }
  Store store(KvType::kQ8_0, 1, kDim);
  std::vector<float> own, between;
  for (int i = 0; i < kDim; ++i) {
    own.push_back(static_cast<float>(i % 32 == 0 ? 127 : i - 64) * 0.25f);  // The scale of each block is 1/4.
    between.push_back((static_cast<float>(i % 32 == 0 ? 127 : i - 64) + (i % 32 == 0 ? 0.0f : 0.5f)) * 0.25f);
  }
  store.check(own, between, "q8_0");
}

TEST(cuda_8bit_pages_handle_numbers_out_of_range) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  for (const KvType type : {KvType::kFp8, KvType::kQ8_0})
    for (const int dim : {64, 33}) {
      Store store(type, 1, dim);
      const auto at = [dim](size_t i) { return i * static_cast<size_t>(dim); };
      std::vector<float> keys(at(8), 1.5f), values(at(8), -0.0f);
      keys[at(0)] = 3e38f;
      keys[at(1) + 5] = -57344.0f * 4;
      keys[at(2) + 1] = kNan;
      keys[at(3) + 32] = -kInfinity;  // The last number in a head of odd size: a separate block.
      std::fill_n(keys.begin() + static_cast<std::ptrdiff_t>(at(4)), dim, 1e-40f);
      std::fill_n(keys.begin() + static_cast<std::ptrdiff_t>(at(5)), dim, 65504.0f);
      std::fill_n(keys.begin() + static_cast<std::ptrdiff_t>(at(6)), dim, 6e-8f);
      values[at(1)] = kInfinity;
      values[at(7) + 3] = 1e-30f;
      store.check(keys, values, name(type));
    }
}

TEST(cuda_8bit_pages_take_half_the_memory) {
  const auto a_token = [](KvType type, int dim) {  // The bytes that one more page adds, with one layer and one head.
    return (CudaKvCache::bytes_for(KvShape::of_equal_layers(1, 1, dim, 9, type)) -
            CudaKvCache::bytes_for(KvShape::of_equal_layers(1, 1, dim, 8, type))) /
           kPageTokens;
  };
  CHECK_EQ(a_token(KvType::kF32, 128), size_t{1024});
  CHECK_EQ(a_token(KvType::kF16, 128), size_t{512});
  CHECK_EQ(a_token(KvType::kQ8_0, 128), size_t{272});
  CHECK_EQ(a_token(KvType::kFp8, 128), size_t{260});
  CHECK_EQ(a_token(KvType::kQ8_0, 33), size_t{2 * (33 + 4)});
  CHECK_EQ(a_token(KvType::kFp8, 33), size_t{2 * (33 + 2)});
  CHECK_EQ(CudaKvCache::bytes_for(KvShape::of_equal_layers(1, 1, 128, int64_t{1} << 60, KvType::kFp8)), SIZE_MAX);
}

// Copies whole pages of every layer, including their scales.
TEST(cuda_8bit_pages_are_copied_whole) {
  for (const KvType type : {KvType::kFp8, KvType::kQ8_0}) {
    auto opened = Runtime::open(0);
    Runtime* const runtime = opened->get();
    auto made = CudaKvCache::create(*runtime, KvShape::of_equal_layers(3, 2, 40, 4, type));
    CudaKvCache* const cache = made->get();
    const auto page = static_cast<size_t>(cache->view(0).page_bytes);
    auto* const host = static_cast<unsigned char*>(*runtime->allocate_pinned(4 * page));
    std::mt19937 random(8);
    std::vector<unsigned char> before;
    for (int layer = 0; layer < 3; ++layer) {
      for (size_t i = 0; i < 4 * page; ++i) host[i] = static_cast<unsigned char>(random());
      before.insert(before.end(), host, host + 4 * page);
      runtime->upload(cache->view(layer).data, host, 4 * page);
      runtime->synchronize();
    }
    cache->copy_page(2, 0);
    for (int layer = 0; layer < 3; ++layer) {
      const unsigned char* const was = before.data() + static_cast<size_t>(layer) * 4 * page;
      runtime->download(host, cache->view(layer).data, 4 * page);
      runtime->synchronize();
      CHECK(std::memcmp(host, was + 2 * page, page) == 0);
      CHECK(std::memcmp(host + page, was + page, 3 * page) == 0);
    }
  }
}
