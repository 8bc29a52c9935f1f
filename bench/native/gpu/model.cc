// Benchmark of whole steps of a model with random weights and the shape of Llama 8B: decoding many streams, and prefill
// of a long prompt. It uses the engine's model and backend, but no scheduler.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <stdexcept>

#include "backend/cuda/cuda_backend.h"
#include "gpu/measure.h"
#include "formats/gguf/assembled_file.h"
#include "formats/gguf/parser.h"
#include "model/model.h"

namespace monolith::bench {
namespace {

struct Shape {
  uint32_t embedding, layers, heads, kv_heads, head_size, feed_forward, vocabulary;
};
constexpr Shape kLlama8B{4096, 32, 32, 8, 128, 14336, 128256};
constexpr Shape kTiny{256, 2, 4, 2, 64, 512, 1000};

// A GGUF file image in memory with random weights. One small memfd with random blocks is mapped repeatedly, so 16 GB of
// weights need hardly any host memory. On the device, every weight has its own memory.
class RandomModel {
 public:
  // FP8 weights are quantized from bfloat16 when the backend loads them.
  RandomModel(const Shape& shape, TensorType wanted) {
    const TensorType type = wanted == TensorType::kF8E4M3 ? TensorType::kBF16 : wanted;
    list(shape, type);
    // Period in bytes after which the tensor data repeats. A multiple of both the page size and the block size.
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t least = std::lcm(page, static_cast<size_t>(traits_of(type).block_bytes));
    period_ = (size_t{32} << 20) / least * least;
    std::vector<std::byte> head = header(shape);
    const size_t data = (head.size() + 31) / 32 * 32;
    // The norms come first, in float32, followed by the matrices with the repeating data.
    size_t at = data;
    for (Tensor& tensor : tensors_)
      if (tensor.rows == 0) tensor.offset = at - data, at += (tensor.bytes + 31) / 32 * 32;
    const size_t begin = (at + page - 1) / page * page;
    at = begin;
    for (Tensor& tensor : tensors_)
      if (tensor.rows > 0) tensor.offset = at - data, at += (tensor.bytes + 31) / 32 * 32;
    head = header(shape);  // The header now has the tensor offsets. Its length is unchanged.
    head.resize(begin);
    for (const Tensor& tensor : tensors_) {
      if (tensor.rows > 0) continue;
      const std::vector<std::byte> values = random_blocks(TensorType::kF32, tensor.bytes / sizeof(float), 20);
      std::memcpy(&head[data + tensor.offset], values.data(), values.size());
    }
    map(head, at, random_blocks(type, period_ / static_cast<size_t>(traits_of(type).block_bytes), 21));
    auto parsed = GgufParser({base_, at}).parse();
    if (!parsed) throw std::runtime_error(parsed.error().message);
    if (wanted != type) AssembledFile::quantize(**parsed, wanted, 1);
    file_ = std::move(*parsed);
  }
  RandomModel(const RandomModel&) = delete;
  RandomModel& operator=(const RandomModel&) = delete;
  ~RandomModel() {
    file_.reset();
    if (base_) munmap(base_, mapped_);
  }
  const GgufFile& file() const { return *file_; }

 private:
  struct Tensor {
    std::string name;
    uint64_t cols, rows;  // `rows` is 0 for float32 vectors (norms).
    TensorType type;
    size_t bytes, offset = 0;
  };

  void add(const std::string& name, uint64_t cols, uint64_t rows, TensorType type) {
    const TensorTypeTraits& traits = traits_of(type);
    const uint64_t values = cols * std::max<uint64_t>(rows, 1);
    tensors_.push_back(
        {name, cols, rows, type,
         values / static_cast<uint64_t>(traits.block_values) * static_cast<uint64_t>(traits.block_bytes)});
  }
  void list(const Shape& s, TensorType type) {
    const uint64_t q = uint64_t{s.heads} * s.head_size, kv = uint64_t{s.kv_heads} * s.head_size;
    add("token_embd.weight", s.embedding, s.vocabulary, type);
    add("output.weight", s.embedding, s.vocabulary, type);
    add("output_norm.weight", s.embedding, 0, TensorType::kF32);
    for (uint32_t i = 0; i < s.layers; ++i) {
      const std::string block = "blk." + std::to_string(i) + ".";
      add(block + "attn_norm.weight", s.embedding, 0, TensorType::kF32);
      add(block + "ffn_norm.weight", s.embedding, 0, TensorType::kF32);
      add(block + "attn_q.weight", s.embedding, q, type);
      add(block + "attn_k.weight", s.embedding, kv, type);
      add(block + "attn_v.weight", s.embedding, kv, type);
      add(block + "attn_output.weight", q, s.embedding, type);
      add(block + "ffn_gate.weight", s.embedding, s.feed_forward, type);
      add(block + "ffn_up.weight", s.embedding, s.feed_forward, type);
      add(block + "ffn_down.weight", s.feed_forward, s.embedding, type);
    }
  }

  std::vector<std::byte> header(const Shape& s) const {
    std::vector<std::byte> out;
    const auto put = [&](auto value) {
      const auto* const from = reinterpret_cast<const std::byte*>(&value);
      out.insert(out.end(), from, from + sizeof value);
    };
    const auto text = [&](const std::string& value) {
      put(uint64_t{value.size()});
      const auto* const from = reinterpret_cast<const std::byte*>(value.data());
      out.insert(out.end(), from, from + value.size());
    };
    const std::pair<const char*, uint32_t> numbers[] = {
        {"context_length", 131072},        {"embedding_length", s.embedding},
        {"block_count", s.layers},         {"feed_forward_length", s.feed_forward},
        {"attention.head_count", s.heads}, {"attention.head_count_kv", s.kv_heads}};
    put(uint32_t{0x46554747}), put(uint32_t{3});  // The magic number "GGUF" and the format's version.
    put(uint64_t{tensors_.size()}), put(uint64_t{std::size(numbers) + 3});
    text("general.architecture"), put(GgufValueType::kString), text("llama");
    for (const auto& [key, value] : numbers) text("llama." + std::string(key)), put(GgufValueType::kUint32), put(value);
    text("llama.attention.layer_norm_rms_epsilon"), put(GgufValueType::kFloat32), put(1e-5f);
    text("llama.rope.freq_base"), put(GgufValueType::kFloat32), put(500000.0f);
    for (const Tensor& tensor : tensors_) {
      text(tensor.name), put(uint32_t{tensor.rows > 0 ? 2u : 1u}), put(tensor.cols);
      if (tensor.rows > 0) put(tensor.rows);
      put(tensor.type), put(uint64_t{tensor.offset});
    }
    return out;
  }

  // Maps `head`, followed by enough copies of `period` to fill `size` bytes.
  void map(const std::vector<std::byte>& head, size_t size, const std::vector<std::byte>& period) {
    const int head_file = memory_file(head), period_file = memory_file(period);
    mapped_ = size + period_;
    void* const base = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) throw std::runtime_error("the model's address space could not be reserved");
    base_ = static_cast<std::byte*>(base);
    const auto place = [&](size_t at, size_t bytes, int file) {
      if (mmap(base_ + at, bytes, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED)
        throw std::runtime_error("the model's weights could not be mapped");
    };
    place(0, head.size(), head_file);
    for (size_t at = head.size(); at < size; at += period_) place(at, period_, period_file);
    close(head_file), close(period_file);
  }
  static int memory_file(const std::vector<std::byte>& bytes) {
    const int file = memfd_create("gpu_bench", 0);
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t n = file < 0 ? -1 : write(file, bytes.data() + done, bytes.size() - done);
      if (n <= 0) throw std::runtime_error("the model's weights could not be stored in a memory file");
      done += static_cast<size_t>(n);
    }
    return file;
  }

  std::vector<Tensor> tensors_;
  size_t period_ = 0, mapped_ = 0;
  std::byte* base_ = nullptr;
  std::unique_ptr<const GgufFile> file_;
};

class ModelBench {
 public:
  ModelBench(const Options& options, const Clock& clock, Results& results)
      : options_(options), clock_(clock), results_(results) {}

  // Backend settings, with the same defaults as the engine.
  struct Way {
    bool recording = true, invariant = true, early_launch = true;
    std::string text() const {
      return std::string(recording ? "" : ", no CUDA graphs") + (invariant ? "" : ", not batch-invariant") +
             (early_launch ? "" : ", no dependent launch");
    }
  };

  // Loads a model with weights of this type. Measures decoding with each number of streams and, if `prefill` is set,
  // prefill.
  void run(TensorType type, const Way& way, const std::vector<int>& streams, bool prefill) {
    const std::string name(traits_of(type).name);
    if (("model " + name).find(options_.filter) == std::string::npos) return;
    if (clock_.is_over()) {
      results_.left_out.push_back("model " + name + way.text() + ": out of time");
      return;
    }
    const Shape& shape = options_.tiny ? kTiny : kLlama8B;
    n_vocab_ = static_cast<int>(shape.vocabulary);
    const double start = now();
    const RandomModel file(shape, type);
    CudaBackendOptions backend_options;
    backend_options.device = options_.device;
    backend_options.recording = way.recording, backend_options.invariant = way.invariant;
    backend_options.early_launch = way.early_launch;
    backend_options.cublaslt = "auto";
    auto backend = make_cuda_backend(backend_options);
    if (!backend) throw std::runtime_error(backend.error().message);
    backend_ = std::move(*backend);
    const int prompt = options_.tiny ? 32 : 8192, most = streams.back();
    pages_each_ = (context() + kSteps + kPageTokens) / kPageTokens;
    const int prompt_pages = prompt / kPageTokens;
    const ModelLimits limits{.max_batch_tokens = std::max(prompt, most),
                             .max_logit_rows = most,
                             .max_context = std::max(prompt, context() + kSteps + kPageTokens),
                             .n_pages = int64_t{prompt_pages} + int64_t{most} * pages_each_};
    auto model = Model::load(file.file(), *backend_, limits, [](float) {});
    if (!model) throw std::runtime_error(model.error().message);
    model_ = std::move(*model);
    if (Status status = backend_->reserve_samples(n_vocab_, most); !status)
      throw std::runtime_error(status.error().message);
    std::fprintf(stderr, "%s: loaded %.1f GB to the device in %.1f s\n", name.c_str(),
                 static_cast<double>(model_->memory().total()) / 1e9, now() - start);
    const double weights = static_cast<double>(model_->memory().weight_bytes) -
                           static_cast<double>(backend_->matrix_bytes(type, shape.vocabulary, shape.embedding));
    what_ = {name, "", 0, 0, way.recording, way.invariant, way.early_launch, 0, weights, 0};
    read_prompt(prompt, prefill);
    // Fill each stream's KV pages with copies of the prompt's pages, so that keys and values have realistic magnitudes.
    for (int i = 0; i < most; ++i)
      for (int page = 0; page < pages_each_; ++page)
        backend_->copy_page(model_->kv(), (i * 7 + page) % prompt_pages, prompt_pages + i * pages_each_ + page);
    for (const int n : streams) decode(n, prompt_pages);
    model_.reset(), backend_.reset();
  }

 private:
  static constexpr int kSteps = 40;
  int context() const { return options_.tiny ? 32 : 1024; }

  // Samples `n` rows of logits greedily, as at the end of a step.
  void sample(const float* logits, int n) {
    tasks_.assign(static_cast<size_t>(n), SampleTask{.temperature = 0});
    answers_.resize(static_cast<size_t>(n));
    for (int i = 0; i < n; ++i) tasks_[static_cast<size_t>(i)].logits = logits + int64_t{i} * n_vocab_;
    backend_->sample(n_vocab_, tasks_, answers_);
    for (const SampleResult& answer : answers_)
      if (answer.token < 0) throw std::runtime_error("the model's logits are not finite");
  }

  void read_prompt(int tokens, bool note_it) {
    std::vector<int32_t> ids(static_cast<size_t>(tokens)), pages(static_cast<size_t>(tokens / kPageTokens));
    Random random(30);
    for (int32_t& id : ids) id = static_cast<int32_t>(random.next() % static_cast<uint64_t>(n_vocab_));
    std::iota(pages.begin(), pages.end(), 0);
    const Segment segment{0, tokens, 0, pages.data()};
    const int32_t last = tokens - 1;
    std::vector<double> times, host;
    for (int i = 0; i < (note_it && !options_.tiny ? 4 : 1); ++i) {
      const double start = now();
      const float* const logits = model_->forward({ids, {&segment, 1}, {&last, 1}, true});
      host.push_back(now() - start);
      sample(logits, 1);
      times.push_back(now() - start);
    }
    if (!note_it) return;
    if (times.size() > 1) times.erase(times.begin()), host.erase(host.begin());
    note("prefill", 1, tokens, times, host);
  }

  void decode(int n, int first_page) {
    std::vector<int32_t> ids(static_cast<size_t>(n)), rows(static_cast<size_t>(n));
    std::vector<int32_t> pages(static_cast<size_t>(n) * static_cast<size_t>(pages_each_));
    std::iota(pages.begin(), pages.end(), first_page);
    std::iota(rows.begin(), rows.end(), 0);
    Random random(31);
    for (int32_t& id : ids) id = static_cast<int32_t>(random.next() % static_cast<uint64_t>(n_vocab_));
    std::vector<Segment> segments;
    for (int i = 0; i < n; ++i)
      segments.push_back({i, 1, context(), pages.data() + static_cast<size_t>(i) * static_cast<size_t>(pages_each_)});
    std::vector<double> times, host;
    for (int step = 0; step < (options_.tiny ? 4 : kSteps); ++step) {
      const double start = now();
      const float* const logits = model_->forward({ids, segments, rows, true});
      const double asked = now();
      sample(logits, n);
      for (int i = 0; i < n; ++i) {
        ids[static_cast<size_t>(i)] = answers_[static_cast<size_t>(i)].token;
        ++segments[static_cast<size_t>(i)].first_position;
      }
      // Warm-up: the first step runs without a CUDA graph, and the second one captures it.
      if (step < 3) continue;
      times.push_back(now() - start), host.push_back(asked - start);
    }
    note("decode", n, n, times, host);
  }

  void note(const char* phase, int streams, int64_t tokens, const std::vector<double>& times,
            const std::vector<double>& host) {
    ModelResult result = what_;
    result.phase = phase, result.streams = streams, result.tokens = tokens;
    result.step_seconds = median(times), result.host_seconds = median(host);
    std::fprintf(stderr, "model %-5s %-8s %4d%s %10.1f tokens/s, %.3f ms per step, of which host %.0f us\n",
                 result.model.c_str(), phase, streams,
                 Way{result.recording, result.invariant, result.early_launch}.text().c_str(),
                 static_cast<double>(tokens) / result.step_seconds, result.step_seconds * 1e3,
                 result.host_seconds * 1e6);
    results_.models.push_back(result);
  }

  const Options& options_;
  const Clock& clock_;
  Results& results_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Model> model_;
  int n_vocab_ = 0, pages_each_ = 0;
  ModelResult what_{};
  std::vector<SampleTask> tasks_;
  std::vector<SampleResult> answers_;
};

}  // namespace

void measure_models(const Options& options, const Clock& clock, Results& results) {
  ModelBench bench(options, clock, results);
  const std::vector<int> all = options.tiny ? std::vector{1, 3} : std::vector{1, 16, 64, 256};
  const std::vector<int> ends = {all.front(), all.back()};
  // The most important measurements come first, because the available time may run out.
  bench.run(TensorType::kBF16, {}, all, true);
  bench.run(TensorType::kF8E4M3, {}, all, true);
  bench.run(TensorType::kQ8_0, {}, all, true);
  bench.run(TensorType::kQ4_K, {}, all, true);
  bench.run(TensorType::kBF16, {.early_launch = false}, all, true);
  bench.run(TensorType::kQ4_K, {.early_launch = false}, all, false);
  bench.run(TensorType::kBF16, {.recording = false}, ends, false);
  bench.run(TensorType::kBF16, {.invariant = false}, all, true);
  bench.run(TensorType::kF16, {}, ends, true);
}

}  // namespace monolith::bench
