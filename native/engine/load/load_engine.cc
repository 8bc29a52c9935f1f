#include "engine/load/load_engine.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <new>
#include <utility>

#include "backend/registry/registry.h"
#include "base/machine_memory.h"
#include "base/memory_planning.h"
#include "engine/debug/file_hash.h"
#include "engine/embedding/encoder_budget.h"
#include "engine/embedding/encoder_engine.h"
#include "engine/kv/page_budget.h"
#include "engine/speculation/draft_model.h"
#include "formats/gguf/read_ahead.h"
#include "formats/gguf/tokenizer.h"
#include "formats/hf/model_file.h"
#include "model/eagle_params.h"

namespace monolith {
namespace {

constexpr int kBatchTokens = 256, kBatchTokensOnDevice = 2'048;  // Default tokens per step on the CPU and on a GPU.

// Held from the time a load plans a device's memory until the engine has allocated it. Otherwise, two concurrent loads
// would both plan to use all of the free memory. One mutex serves all devices because loading is usually limited by
// disk throughput.
std::mutex& device_loading() {
  static std::mutex* const instance = new std::mutex;
  return *instance;
}

Status check_tokens_fit(const Tokenizer& tokenizer, const HyperParams& params) {
  if (tokenizer.n_vocab() <= params.n_vocab) return {};
  return Error{ErrorCode::kInvalidFile, "the tokenizer has " + std::to_string(tokenizer.n_vocab()) +
                                            " tokens, but the embedding table only " + std::to_string(params.n_vocab)};
}

// Opens the draft model's file. Returns null if there is no draft model or speculation is off.
Result<std::unique_ptr<const GgufFile>> open_draft(const LoadOptions& options) {
  if (options.draft_path.empty() || options.engine.speculation == Speculation::kOff)
    return std::unique_ptr<const GgufFile>();
  return open_model_file(options.draft_path, options.draft_file());
}

Error of_draft(const LoadOptions& options, const Error& error) {
  return {error.code, options.draft_path + ": " + error.message};
}

// Checks that an EAGLE-3 head was made for this model. If the head's file contains a vocabulary, it must match the
// model's vocabulary.
Status check_head(const GgufFile& head, const Tokenizer& tokenizer, const HyperParams& params) {
  if (head.find("tokenizer.ggml.tokens") != nullptr) {
    auto own = load_tokenizer(head);
    if (!own) return own.error();
    if (Status status = DraftModel::check_vocabulary(tokenizer, **own); !status) return status;
  }
  HyperParams both = params;
  return add_eagle_head(head, params.context_length, both);
}

// Loads the draft model on the main model's backend, and adds its memory to the main model's plan in `memory`.
Result<std::unique_ptr<Model>> load_draft(const GgufFile& file, Backend& backend, const ModelLimits& limits,
                                          const Tokenizer& tokenizer, MemoryPlan& memory) {
  auto own_tokenizer = load_tokenizer(file);
  if (!own_tokenizer) return own_tokenizer.error();
  if (Status status = DraftModel::check_vocabulary(tokenizer, **own_tokenizer); !status) return status.error();
  auto params = HyperParams::read(file);
  if (!params) return params.error();
  if (Status status = check_tokens_fit(**own_tokenizer, *params); !status) return status.error();
  auto own_limits = DraftModel::choose_limits(file, backend, limits, memory.kv_bytes);
  if (!own_limits) return own_limits.error();
  auto draft = Model::load(file, backend, *own_limits, {});
  if (!draft) return draft.error();
  const MemoryPlan& own = (*draft)->memory();
  memory.weight_bytes += own.weight_bytes;
  memory.kv_bytes += own.kv_bytes;
  memory.kv_start_bytes += own.kv_start_bytes;
  memory.activation_bytes += own.activation_bytes;
  return draft;
}

Result<std::unique_ptr<LoadedEngine>> load_text_encoder(const GgufFile& file, std::unique_ptr<Backend> given,
                                                        const LoadOptions& options, const Model::Progress& progress) {
  if (!options.vision_path.empty() && !options.vision_optional)
    return Error{ErrorCode::kUnsupported,
                 "the model is a text encoder and does not take images; remove its vision file"};
  auto backend = encoder_backend(std::move(given), options.backend);
  if (!backend) return backend.error();
  auto tokenizer = load_tokenizer(file);
  if (!tokenizer) return tokenizer.error();
  MemoryClaim claim;
  int max_context = 0;
  {
    const std::lock_guard planned(memory_planning());
    auto budget = plan_encoder(file, **backend, options.max_context, memory_for_encoder());
    if (!budget) return budget.error();
    max_context = budget->max_context;
    claim.set(budget->plan.total());
  }
  auto encoder = TextEncoder::load(file, **backend, max_context, progress);
  if (!encoder) return encoder.error();
  const TextEncoderParams& params = (*encoder)->params();
  if (Status status = check_tokens_fit(**tokenizer, params.base); !status) return status.error();
  auto info = model_info(file, params.base, **tokenizer);
  if (!info) return info.error();
  auto loaded = std::make_unique<LoadedEngine>();
  loaded->info = std::move(*info);
  if (loaded->info.embeddings) loaded->info.embeddings->max_tokens = params.max_tokens;
  loaded->backend = (*backend)->info();
  loaded->plan = InspectedPlan::of_encoder((*encoder)->memory(), params.max_tokens);
  loaded->file_hash = hash_text(file_hash(file));
  auto engine = start_encoder_engine(std::move(*encoder), std::move(*backend), std::move(*tokenizer), options.engine);
  if (!engine) return engine.error();
  loaded->engine = std::move(*engine);
  return loaded;
}

// Starts reading the first weights of the file, in file order. Reads nothing if the loader would drop the file from the
// page cache first.
std::unique_ptr<ReadAhead> read_first_weights(const GgufFile& file) {
  constexpr size_t kBytes = size_t{128} << 20;
  std::vector<ReadAhead::Piece> pieces;
  if (file.fits_beside(file.file_bytes())) {
    for (const GgufTensor& tensor : file.tensors())
      if (tensor.source == nullptr) pieces.push_back({tensor.data});
  }
  return std::make_unique<ReadAhead>(file, std::move(pieces), kBytes);
}

Result<std::unique_ptr<LoadedEngine>> load_from(const GgufFile& file, std::unique_ptr<Backend> backend,
                                                const LoadOptions& options, const Model::Progress& progress) {
  // The disk reads weights while the tokenizer is built.
  std::unique_ptr<ReadAhead> first_weights = read_first_weights(file);
  if (is_text_encoder(file)) {
    first_weights.reset();
    return load_text_encoder(file, std::move(backend), options, progress);
  }
  auto params = HyperParams::read(file);
  if (!params) return params.error();
  auto tokenizer = load_tokenizer(file);
  if (!tokenizer) return tokenizer.error();
  if (Status status = check_tokens_fit(**tokenizer, *params); !status) return status.error();
  auto info = model_info(file, *params, **tokenizer);
  if (!info) return info.error();
  std::unique_lock loading(device_loading(), std::defer_lock);
  if (backend->free_memory() > 0) loading.lock();
  auto vision = read_vision(options, file, **tokenizer);
  if (!vision) return vision.error();
  ModelLimits wanted = options.limits();
  wanted.max_batch_tokens = std::max(wanted.max_batch_tokens, rows_at_once(*vision));
  auto draft_file = open_draft(options);
  if (!draft_file) return draft_file.error();
  const GgufFile* const head = *draft_file && is_eagle_head(**draft_file) ? draft_file->get() : nullptr;
  if (head)
    if (Status status = check_head(*head, **tokenizer, *params); !status) return of_draft(options, status.error());
  MemoryClaim claim;  // Covers the time until the engine holds its own claim.
  uint64_t weight_bytes = 0;
  std::unique_lock planned(memory_planning());
  auto limits = choose_limits(file, *backend, wanted, options.max_context, options.kv_bytes, head);
  if (!limits) return limits.error();
  if (!loading.owns_lock()) {
    auto plan = Model::plan(file, *backend, *limits, head);
    if (!plan) return plan.error();
    weight_bytes = plan->weight_bytes;
    claim.set(plan->total());
  }
  planned.unlock();
  const uint64_t total = claim.bytes();
  first_weights.reset();
  auto model = Model::load(
      file, *backend, *limits,
      [&](float fraction) {
        // The memory of weights that have already been copied no longer counts as free, so the claim shrinks.
        if (total > 0)
          claim.set(total - std::min(total, static_cast<uint64_t>(static_cast<double>(weight_bytes) *
                                                                  std::min(1.0, double{fraction}))));
        if (progress) progress(fraction);
      },
      head);
  if (!model) return model.error();

  auto loaded = std::make_unique<LoadedEngine>();
  loaded->info = std::move(*info);
  loaded->backend = backend->info();
  loaded->plan = InspectedPlan::of((*model)->memory(), *limits, (*model)->params());
  loaded->file_hash = hash_text(file_hash(file));
  std::unique_ptr<Model> draft;
  if (*draft_file && !head) {
    auto opened = load_draft(**draft_file, *backend, *limits, **tokenizer, loaded->plan.memory);
    if (!opened) return of_draft(options, opened.error());
    draft = std::move(*opened);
  }
  draft_file->reset();
  EngineVision sight;
  if (vision->model) {
    auto encoder = load_encoder(options, *vision, *backend);
    if (!encoder) return encoder.error();
    sight = std::move(*encoder);
  }
  loaded->vision = std::move(vision->model);
  loaded->markers = std::move(vision->markers);
  loaded->vision_problem = std::move(vision->problem);
  auto engine = Engine::start(std::move(*model), std::move(backend), std::move(*tokenizer), options.engine,
                              std::move(draft), std::move(sight));
  if (!engine) return engine.error();
  loaded->engine = std::move(*engine);
  if (loaded->info.embeddings) loaded->info.embeddings->max_tokens = loaded->engine->max_context();
  return loaded;
}

}  // namespace

Result<std::unique_ptr<LoadedEngine>> open_engine(const std::string& path, const LoadOptions& options,
                                                  const std::function<void(float)>& progress) {
  try {
    auto backend = make_backend(options.backend);
    if (!backend) return backend.error();
    const LoadOptions chosen = for_backend(options, **backend);
    std::shared_ptr<StepProfile> profile;
    if (options.profile) {
      profile = std::make_shared<StepProfile>();
      backend = make_profiled_backend(std::move(*backend), profile);
    }
    auto loaded = read_model_file(path, options.file(), [&](const GgufFile& file) {
      return load_from(file, std::move(*backend), chosen, progress);
    });
    if (loaded) (*loaded)->profile = std::move(profile);
    return loaded;
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kOutOfMemory, path + ": not enough memory to load the model"};
  } catch (const std::exception& error) {
    return Error{ErrorCode::kInternal, path + ": " + error.what()};
  }
}

LoadOptions for_backend(LoadOptions options, const Backend& backend) {
  if (options.engine.max_batch_tokens == 0)
    options.engine.max_batch_tokens = backend.free_memory() > 0 ? kBatchTokensOnDevice : kBatchTokens;
  // On a GPU, `auto` turns MTP layers off: steps with MTP layers do not use CUDA graphs, and `auto` does not measure
  // the cost of that. `always` still enables them.
  if (!backend.is_host_memory() && options.engine.mtp == Speculation::kAuto) options.engine.mtp = Speculation::kOff;
  return options;
}

Result<InspectedFiles> inspect_files(const std::string& path, const LoadOptions& options) {
  auto backend = make_backend(options.backend);
  if (!backend) return backend.error();
  auto file = open_model_file(path, options.file());
  if (!file) return file.error();
  if (is_text_encoder(**file)) backend = encoder_backend(std::move(*backend), options.backend);
  if (!backend) return backend.error();
  InspectedFiles found{
      inspect(**file, **backend, for_backend(options, **backend).limits(), options.max_context, options.kv_bytes),
      std::nullopt};
  if (options.vision_path.empty()) return found;
  auto vision = inspect_vision(options, path, **backend);
  if (!vision) return vision.error();
  found.vision = std::move(*vision);
  return found;
}

}  // namespace monolith
