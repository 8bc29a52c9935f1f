// Benchmark of individual CUDA kernels: matmuls with each weight type, attention, row operations and sampling.
#include <array>
#include <chrono>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>

#include "backend/cuda/attention/attention.h"
#include "backend/cuda/attention/kv_cache.h"
#include "backend/cuda/matmul/matmul.h"
#include "backend/cuda/attention/rope.h"
#include "backend/cuda/rows.h"
#include "backend/cuda/sampling/sampling.h"
#include "backend/cuda/step_tables.h"
#include "gpu/measure.h"

namespace monolith::bench {
namespace {

using namespace cuda;

constexpr double kCacheTimes = 3;  // Total size of the input sets, as a multiple of the L2 cache size.

void require(const Status& status) {
  if (!status) throw std::runtime_error(status.error().message);
}

class Kernels {
 public:
  Kernels(Runtime& runtime, const Options& options, const Clock& clock, Results& results)
      : runtime_(runtime), options_(options), clock_(clock), results_(results) {}

  void copies() {
    const size_t bytes = options_.tiny ? size_t{1} << 16 : size_t{1} << 30;
    float* const from = random_floats(runtime_, static_cast<int64_t>(bytes / sizeof(float)), 1, 1);
    float* const to = floats(runtime_, static_cast<int64_t>(bytes / sizeof(float)));
    // Copies are not captured in a CUDA graph: uploads never are, and device-to-device copies are slower within a
    // graph.
    const auto each = [&](const auto& call) {
      constexpr int kCalls = 8;
      call();
      runtime_.synchronize();
      const auto began = std::chrono::steady_clock::now();
      for (int i = 0; i < kCalls; ++i) call();
      runtime_.synchronize();
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count() / kCalls;
    };
    const double seconds = each([&] { runtime_.copy(to, from, bytes); });
    results_.copy_bytes_per_second = 2 * static_cast<double>(bytes) / seconds;
    auto pinned = runtime_.allocate_pinned(bytes / 4);
    if (!pinned) throw std::runtime_error(pinned.error().message);
    const double up = each([&] { runtime_.upload(to, *pinned, bytes / 4); });
    results_.upload_bytes_per_second = static_cast<double>(bytes / 4) / up;
    runtime_.free_pinned(*pinned);
    runtime_.free(from), runtime_.free(to);
    std::fprintf(stderr, "copy %.0f GB/s, upload %.1f GB/s\n", results_.copy_bytes_per_second / 1e9,
                 results_.upload_bytes_per_second / 1e9);
  }

  void products() {
    const std::array kinds{TensorType::kBF16, TensorType::kF16,  TensorType::kF8E4M3, TensorType::kQ8_0,
                           TensorType::kQ4_0, TensorType::kQ4_K, TensorType::kQ6_K};
    const std::vector<int64_t> columns =
        options_.tiny ? std::vector<int64_t>{1, 8, 20} : std::vector<int64_t>{1, 2, 4, 8, 16, 64, 256, 2048, 8192};
    const int64_t width = options_.tiny ? 256 : 4096, wide = options_.tiny ? 512 : 14336, most = columns.back();
    MatmulContext context{DenseScratch(runtime_), dense_device(runtime_, {}), Int8Activations(runtime_)};
    require(context.dense.reserve(most, wide));
    require(context.int8.reserve(static_cast<int>(most), wide));
    open_library();
    float* const x = random_floats(runtime_, most * wide, 1, 2);
    float* const out = floats(runtime_, most * wide);
    for (const TensorType type : kinds) {
      const std::string kind(traits_of(type).name);
      for (const auto& [rows, cols] : {std::pair{wide, width}, std::pair{width, wide}, std::pair{width, width}}) {
        const std::string name = kind + " " + std::to_string(rows) + "x" + std::to_string(cols);
        if (!wanted("product", name)) continue;
        const Format format = format_for(type, rows, cols, false);
        const int n_sets = sets(static_cast<double>(cuda::matrix_bytes(format, type, rows, cols)));
        std::vector<std::unique_ptr<Matrix>> weights;
        for (int i = 0; i < n_sets; ++i) {
          const auto blocks = static_cast<size_t>(rows * cols / traits_of(type).block_values);
          // FP8 weights are quantized from bfloat16 when they are loaded.
          const bool fp8 = type == TensorType::kF8E4M3;
          const TensorType from = fp8 ? TensorType::kBF16 : type;
          const std::vector<std::byte> data = random_blocks(from, blocks, static_cast<uint64_t>(i) + 3);
          auto matrix = make_matrix(runtime_, {from, rows, cols, data, fp8}, false);
          if (!matrix) throw std::runtime_error(matrix.error().message);
          weights.push_back(std::move(*matrix));
        }
        for (const int64_t n : columns) {
          if (out_of_time(name)) return;
          const int64_t places = most / n;  // Number of ranges of `x` and `out` that the calls cycle through.
          const double seconds = time_calls(runtime_, options_, n_sets, [&, rows = rows, cols = cols](int i) {
            const int64_t place = i % std::min<int64_t>(places, 64);
            const MatmulTarget target{weights[static_cast<size_t>(i % n_sets)].get(), out + place * n * rows, rows};
            matmul(runtime_, context, {&target, 1}, x + place * n * cols, static_cast<int>(n));
          });
          const double bytes =
              static_cast<double>(weights[0]->bytes) + static_cast<double>(n * (rows + cols)) * sizeof(float);
          note({"product", name, n, seconds, bytes, 2.0 * static_cast<double>(rows * cols * n),
                is_dense(format) ? Unit::kHalf : Unit::kByte});
          if (library_ && library_serves(format, rows, cols, n))
            time_library(context.dense, name, weights, x, out, n, bytes);
        }
      }
    }
    runtime_.free(x), runtime_.free(out);
  }

  void attentions() {
    const int k = 1024;
    if (options_.tiny) {
      attention_of("decode 1 x 70", 1, 1, 70);
      attention_of("decode 3 x 40", 3, 1, 40);
      attention_of("decode 3 x 40 q8_0", 3, 1, 40, KvType::kQ8_0);
      attention_of("prefill 40 fp8", 1, 40, 40, KvType::kFp8);
      return attention_of("prefill 40", 1, 40, 40);
    }
    attention_of("decode 1 x 4k", 1, 1, 4 * k);
    attention_of("decode 1 x 32k", 1, 1, 32 * k);
    attention_of("decode 1 x 128k", 1, 1, 128 * k);
    attention_of("decode 16 x 8k", 16, 1, 8 * k);
    attention_of("decode 256 x 1k", 256, 1, k);
    attention_of("prefill 2k", 1, 2 * k, 2 * k);
    attention_of("prefill 8k", 1, 8 * k, 8 * k);
    for (const KvType type : {KvType::kFp8, KvType::kQ8_0}) {
      const std::string end = type == KvType::kFp8 ? " fp8" : " q8_0";
      attention_of("decode 1 x 32k" + end, 1, 1, 32 * k, type);
      attention_of("decode 16 x 8k" + end, 16, 1, 8 * k, type);
      attention_of("decode 256 x 1k" + end, 256, 1, k, type);
      attention_of("prefill 8k" + end, 1, 8 * k, 8 * k, type);
    }
  }

  void rows() {
    const int64_t width = options_.tiny ? 256 : 4096, wide = options_.tiny ? 512 : 14336;
    const std::vector<int> counts = options_.tiny ? std::vector{1, 3} : std::vector{1, 256, 8192};
    const int64_t most = counts.back();
    float* const a = random_floats(runtime_, most * wide, 1, 5);
    float* const b = random_floats(runtime_, most * wide, 1, 6);
    float* const out = floats(runtime_, most * wide);
    for (const int n : counts) {
      const int64_t places = std::min<int64_t>(most / n, 64);
      const double row = static_cast<double>(n) * sizeof(float);
      const auto time = [&](const char* name, double bytes, const std::function<void(int64_t)>& call) {
        if (!wanted("rows", name) || out_of_time(name)) return;
        const double seconds =
            time_calls(runtime_, options_, static_cast<int>(places), [&](int i) { call(i % places * n); });
        note({"rows", name, n, seconds, bytes, 0, Unit::kNone});
      };
      time("rms_norm", 2 * row * static_cast<double>(width),
           [&](int64_t at) { rms_norm(runtime_, a + at * width, b, 1e-5f, n, width, out + at * width); });
      time("gated", 3 * row * static_cast<double>(wide), [&](int64_t at) {
        gated(runtime_, Activation::kSilu, a + at * wide, b + at * wide, n * wide, out + at * wide);
      });
      time("add_rows", 3 * row * static_cast<double>(width),
           [&](int64_t at) { add_rows(runtime_, out + at * width, b + at * width, 1.0f, nullptr, n, width); });
    }
    runtime_.free(a), runtime_.free(b), runtime_.free(out);
  }

  void sampling() {
    const int vocab = options_.tiny ? 1000 : 128256, n = options_.tiny ? 3 : 256;
    float* const logits = random_floats(runtime_, int64_t{n} * vocab, 3, 7);
    DeviceSampler sampler(runtime_);
    require(sampler.reserve(vocab, n));
    struct Way {
      const char* name;
      SampleTask task;
    };
    const Way ways[] = {{"greedy", {.temperature = 0}},
                        {"temperature", {.temperature = 0.8f}},
                        {"top_p", {.temperature = 0.8f, .top_p = 0.95f}},
                        {"top_k and top_p", {.temperature = 0.8f, .top_k = 50, .top_p = 0.95f}},
                        {"logprobs", {.temperature = 0.8f, .n_top = 20}}};
    std::vector<SampleResult> answers(static_cast<size_t>(n));
    for (const Way& way : ways) {
      if (!wanted("sampling", way.name) || out_of_time(way.name)) continue;
      for (const int count : {1, n}) {
        Random random(8);
        std::vector<SampleTask> tasks(static_cast<size_t>(count), way.task);
        for (int i = 0; i < count; ++i) {
          tasks[static_cast<size_t>(i)].logits = logits + int64_t{i} * vocab;
          tasks[static_cast<size_t>(i)].random = random.next();
        }
        std::vector<double> times;  // Includes the copies to and from the device, because sample() returns the results.
        for (int i = 0; i < (options_.tiny ? 1 : 20); ++i) {
          const double start = now();
          sampler.sample(vocab, tasks, std::span(answers).first(static_cast<size_t>(count)));
          times.push_back(now() - start);
        }
        for (int i = 0; i < count; ++i)
          if (answers[static_cast<size_t>(i)].token < 0) throw std::runtime_error("sampling returned no token");
        const double bytes = static_cast<double>(vocab) * count * sizeof(float);
        note({"sampling", way.name, count, median(times), bytes, 0, Unit::kNone});
      }
    }
    runtime_.free(logits);
  }

 private:
  // Loads cuBLASLt if it is installed.
  void open_library() {
    auto library = DenseLibrary::open(runtime_, "");
    auto workspace = runtime_.allocate(CublasLt::kWorkspaceBytes);
    require(workspace ? Status() : Status(workspace.error()));
    auto alone = CublasLt::open(runtime_, "", *workspace);
    if (library && alone)
      library_ = std::move(*library), alone_ = std::move(*alone);
    else
      results_.left_out.push_back("cuBLASLt: " + (library ? alone.error() : library.error()).message);
  }
  // Times the same matmul with cuBLASLt in two ways: once as the engine uses cuBLASLt, including unpacking the weights
  // and converting the activations, and once with inputs that are already in the library's layout.
  void time_library(const DenseScratch& scratch, const std::string& name,
                    const std::vector<std::unique_ptr<Matrix>>& weights, const float* x, float* out, int64_t n,
                    double bytes) {
    const int64_t rows = weights[0]->rows, cols = weights[0]->cols;
    const auto n_sets = static_cast<int>(weights.size());
    const double operations = 2.0 * static_cast<double>(rows * cols * n);
    bool done = true;
    const double whole = time_calls(runtime_, options_, n_sets, [&](int i) {
      const MatmulTarget target{weights[static_cast<size_t>(i % n_sets)].get(), out, rows};
      library_->convert(scratch, x, cols, n);
      done &= library_->multiply(scratch, target, n) == rows;
    });
    // The weights are passed in their packed form, without conversion. The result is meaningless, but the run time is
    // the same.
    const double alone = time_calls(runtime_, options_, n_sets, [&](int i) {
      const auto& matrix = static_cast<const CudaMatrix&>(*weights[static_cast<size_t>(i % n_sets)]);
      done &= alone_->multiply({rows, n, cols, rows, matrix.data(), scratch.activations(), out, false});
    });
    if (!done) return results_.left_out.push_back("cuBLASLt " + name + ": the library could not compute this matmul");
    note({"product", name + ", cuBLASLt", n, whole, bytes, operations, Unit::kHalf});
    note({"product", name + ", cuBLASLt alone", n, alone, bytes, operations, Unit::kHalf});
  }

  bool wanted(const std::string& family, const std::string& name) const {
    return (family + " " + name).find(options_.filter) != std::string::npos;
  }
  bool out_of_time(const std::string& name) {
    if (!clock_.is_over()) return false;
    results_.left_out.push_back(name + ": out of time");
    return true;
  }
  // Returns the number of input sets of `bytes` bytes whose total size is kCacheTimes times the L2 cache size, clamped
  // to between 2 and 32.
  int sets(double bytes) const {
    if (options_.tiny) return 2;
    const double most = kCacheTimes * static_cast<double>(runtime_.device().l2_bytes);
    return std::clamp(static_cast<int>(most / bytes) + 1, 2, 32);
  }
  void note(const KernelResult& result) {
    std::fprintf(stderr, "%-9s %-34s %6lld %10.1f us %8.0f GB/s %8.2f Tops/s\n", result.family.c_str(),
                 result.name.c_str(), static_cast<long long>(result.rows), result.seconds * 1e6,
                 result.bytes / result.seconds / 1e9, result.operations / result.seconds / 1e12);
    results_.kernels.push_back(result);
  }

  // Measures attention for `streams` sequences, each of which computes the last `tokens` of its `context` positions.
  void attention_of(const std::string& name, int streams, int tokens, int context, KvType type = KvType::kF16) {
    if (!wanted("attention", name) || out_of_time(name)) return;
    const int heads = options_.tiny ? 4 : 32, kv_heads = options_.tiny ? 2 : 8, dim = options_.tiny ? 64 : 128;
    const int pages = (context + kPageTokens - 1) / kPageTokens, rows = streams * tokens;
    const auto with = [&](int64_t n) {
      return CudaKvCache::bytes_for(KvShape::of_equal_layers(1, kv_heads, dim, n, type));
    };
    const double cache_bytes = static_cast<double>(with(2) - with(1)) / kPageTokens * streams * context;
    const int n_sets = sets(cache_bytes);  // Number of layers in the KV cache.
    auto cache =
        CudaKvCache::create(runtime_, KvShape::of_equal_layers(n_sets, kv_heads, dim, int64_t{streams} * pages, type));
    if (!cache) throw std::runtime_error(cache.error().message);
    const std::vector<std::byte> run = random_blocks(TensorType::kF16, size_t{4} << 20, 9);
    for (int layer = 0; layer < n_sets; ++layer) {
      const KvView view = (*cache)->view(layer);
      const auto bytes = static_cast<size_t>(view.page_bytes * streams * pages);
      for (size_t at = 0; at < bytes; at += run.size())
        runtime_.upload(view.data + at, run.data(), std::min(run.size(), bytes - at));
    }
    runtime_.synchronize();

    std::vector<int32_t> table(static_cast<size_t>(streams) * static_cast<size_t>(pages));
    std::iota(table.begin(), table.end(), 0);
    std::vector<Segment> segments;
    for (int i = 0; i < streams; ++i)
      segments.push_back({i * tokens, tokens, context - tokens, &table[static_cast<size_t>(int64_t{i} * pages)]});
    const std::vector<int32_t> ids(static_cast<size_t>(rows), 1);
    const std::span<const Segment> list = segments;
    StepTables tables(runtime_);
    tables.set_kv_heads(kv_heads);
    require(tables.reserve(rows, context));
    tables.send({.model = this, .tokens = ids, .logit_rows = {}, .segment_lists = {&list, 1}, .max_rows = rows}, 0,
                kSparePage);
    const RowList* const sent = tables.find(list);
    if (!sent) throw std::runtime_error("the segment list of the benchmark was not sent to the device");

    AttentionScratch scratch(runtime_);
    const int64_t width = int64_t{heads} * dim;
    require(scratch.reserve(width));
    float* const q = random_floats(runtime_, rows * width, 1, 10);
    float* const out = floats(runtime_, rows * width);
    const AttentionParams params{.scale = 0.088f};
    const double seconds = time_calls(runtime_, options_, n_sets, [&](int i) {
      attention(runtime_, scratch, {sent, q, width, heads, (*cache)->view(i % n_sets), params, out, width}, type);
    });
    // Number of (query, key) position pairs.
    const double seen = static_cast<double>(streams) * tokens * (context - (tokens - 1) / 2.0);
    note({"attention", name, rows, seconds, cache_bytes + 2.0 * static_cast<double>(rows * width) * sizeof(float),
          4.0 * seen * static_cast<double>(width), Unit::kHalf});

    if (tokens > 1 || streams > 1) rotate(name, *sent, **cache, heads, kv_heads, dim, rows);
    runtime_.free(q), runtime_.free(out);
  }

  void rotate(const std::string& name, const RowList& sent, const CudaKvCache& cache, int heads, int kv_heads, int dim,
              int rows) {
    RopeTables tables(runtime_);
    require(tables.reserve(rows, dim));
    std::vector<float> frequencies(static_cast<size_t>(dim) / 2);
    for (size_t i = 0; i < frequencies.size(); ++i) frequencies[i] = 1.0f / static_cast<float>(i + 1);
    const RopeParams rope{RopeStyle::kHalves, dim, frequencies.data()};
    tables.begin_step();
    const float* const factors = tables.prepare(rope, sent);
    const int64_t q_width = int64_t{heads} * dim, kv_width = int64_t{kv_heads} * dim;
    float* const q = random_floats(runtime_, rows * q_width, 1, 11);
    float* const k = random_floats(runtime_, rows * kv_width, 1, 12);
    float* const v = random_floats(runtime_, rows * kv_width, 1, 13);
    const double seconds = time_calls(runtime_, options_, 1, [&](int) {
      rope_and_store(runtime_, rope, factors,
                     {&sent, q, q_width, heads, k, kv_width, v, kv_width, cache.view(0), KvType::kF16});
    });
    // q and k are read and written, and v is read, all as float32. The KV cache stores the elements of k and v in 16 or
    // 8 bits each.
    const int64_t stored = cache.shape.type == KvType::kF16 ? 4 : 2;
    const auto bytes = static_cast<double>(rows * (8 * (q_width + kv_width) + 4 * kv_width + stored * kv_width));
    note({"rope", name, rows, seconds, bytes, 0, Unit::kNone});
    runtime_.free(q), runtime_.free(k), runtime_.free(v);
  }

  Runtime& runtime_;
  const Options& options_;
  const Clock& clock_;
  Results& results_;
  std::unique_ptr<DenseLibrary> library_;  // Null if cuBLASLt is not installed.
  std::unique_ptr<CublasLt> alone_;
};

}  // namespace

void measure_kernels(const Options& options, const Clock& clock, Results& results) {
  auto runtime = Runtime::open(options.device);
  if (!runtime) throw std::runtime_error(runtime.error().message);
  Kernels kernels(**runtime, options, clock, results);
  kernels.copies();
  if (!options.kernels) return;
  kernels.products();
  kernels.attentions();
  kernels.rows();
  kernels.sampling();
}

}  // namespace monolith::bench
