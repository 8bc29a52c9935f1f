#include "engine/adapters/adapter_set.h"

#include <algorithm>
#include <bit>
#include <exception>
#include <filesystem>
#include <new>

#include "base/machine_memory.h"
#include "base/memory_planning.h"
#include "formats/gguf/lora_file.h"
#include "formats/hf/lora_folder.h"
#include "model/adapter_operations.h"

namespace monolith {
namespace {

static_assert(kMaxAdapters <= AdapterOperations::kMaxAtOnce, "all adapters may occur in one step");

Error no_adapter(AdapterId id) {
  return {ErrorCode::kInvalidArgument, "adapter: there is no adapter " + std::to_string(id)};
}

Result<LoraFile> open_lora(const std::string& path, const HyperParams& params) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return open_lora_file(path);
  hf::LoraBase base{.architecture = params.architecture_name, .n_heads = {}, .n_kv_heads = {}};
  for (int i = 0; i < params.n_layers; ++i) {
    const LayerParams& layer = params.layers[static_cast<size_t>(i)];
    base.n_heads.push_back(layer.n_heads);
    base.n_kv_heads.push_back(layer.n_kv_heads);
  }
  return hf::open_lora_folder(path, base);
}

// Returns the approximate peak memory use of loading an adapter, in bytes: the factors, the copies of the largest
// pair's values while it is converted, and the memory that Model::reserve_adapters() allocates for a step.
uint64_t bytes_to_load(const LoraFile& file, const ModelLimits& limits) {
  uint64_t values = 0, largest = 0;
  unsigned rank = 1;
  for (const LoraPair& pair : file.pairs) {
    const uint64_t own = static_cast<uint64_t>(pair.rank) * static_cast<uint64_t>(pair.rows + pair.cols);
    values += own;
    largest = std::max(largest, own);
    rank = std::max(rank, static_cast<unsigned>(pair.rank));
  }
  const uint64_t step = uint64_t{std::bit_ceil(std::min(rank, static_cast<unsigned>(kMaxAdapterRank)))} *
                        static_cast<uint64_t>(limits.max_batch_tokens) * AdapterOperations::kMaxTargets;
  return (values + 2 * largest + step) * sizeof(float);
}

}  // namespace

Result<AdapterInfo> AdapterSet::load(const std::string& path, const AdapterOptions& options,
                                     const std::function<Status(int rank)>& reserve) {
  const std::lock_guard loading(loading_);
  const auto named = [&](const Error& error) { return Error{error.code, path + ": " + error.message}; };
  try {
    MemoryClaim claim;  // Held until all memory has been allocated and touched.
    auto loaded = read(path, options, claim);
    if (!loaded) return named(loaded.error());
    if (Status status = reserve((*loaded)->info.rank); !status) return named(status.error());
    const std::lock_guard lock(mutex_);
    (*loaded)->info.id = next_id_++;
    entries_.push_back({*loaded, *loaded});
    return (*loaded)->info;
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kOutOfMemory, path + ": there is not enough memory for the adapter"};
  } catch (const std::exception& error) {
    return Error{ErrorCode::kInternal, path + ": " + error.what()};
  }
}

Result<std::shared_ptr<LoadedAdapter>> AdapterSet::read(const std::string& path, const AdapterOptions& options,
                                                        MemoryClaim& claim) {
  if (model_.adaptable_weights().empty())
    return Error{ErrorCode::kUnsupported, "models of architecture '" + model_.params().architecture_name +
                                              "' have no matrices that adapters can change"};
  const auto file = open_lora(path, model_.params());
  if (!file) return file.error();
  std::unique_lock planned(memory_planning());
  const auto left = room();
  if (!left) return left.error();
  claim.set(std::min(uint64_t{*left}, bytes_to_load(*file, model_.limits())));
  planned.unlock();
  auto adapter = Adapter::load(*file, options.scale, model_, *left);
  if (!adapter) return adapter.error();
  auto loaded = std::make_shared<LoadedAdapter>();
  loaded->info = {.name = options.name,
                  .rank = (*adapter)->rank(),
                  .alpha = file->alpha,
                  .scale = options.scale,
                  .bytes = (*adapter)->bytes(),
                  .targets = (*adapter)->targets(),
                  .hash = (*adapter)->hash()};
  loaded->adapter = std::move(*adapter);
  return loaded;
}

// Returns the number of bytes that the next adapter may use. Fails if there are already kMaxAdapters adapters.
Result<size_t> AdapterSet::room() {
  const std::lock_guard lock(mutex_);
  remove_freed();
  if (entries_.size() >= kMaxAdapters)
    return Error{ErrorCode::kOutOfMemory, "there are already " + std::to_string(kMaxAdapters) + " adapters"};
  size_t used = 0;
  for (const Entry& entry : entries_)
    if (const auto loaded = entry.used.lock()) used += loaded->info.bytes;
  const size_t left = most_bytes_ - std::min(most_bytes_, used);
  const MachineMemory memory = machine_memory();
  if (memory.total == 0) return left;
  const uint64_t claimed = MemoryClaim::all();
  return static_cast<size_t>(std::min<uint64_t>(left, memory.available - std::min(memory.available, claimed)));
}

void AdapterSet::remove_freed() {
  std::erase_if(entries_, [](const Entry& entry) { return entry.used.expired(); });
}

Status AdapterSet::unload(AdapterId id) {
  std::shared_ptr<LoadedAdapter> last;  // May free the adapter, but only after `lock`, declared below, is released.
  const std::lock_guard lock(mutex_);
  for (Entry& entry : entries_) {
    if (!entry.loaded || entry.loaded->info.id != id) continue;
    last = std::move(entry.loaded);
    return {};
  }
  return no_adapter(id);
}

Result<std::shared_ptr<AdapterUse>> AdapterSet::use(AdapterId id) {
  const std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_)
    if (entry.loaded && entry.loaded->info.id == id) return std::make_shared<AdapterUse>(entry.loaded);
  return no_adapter(id);
}

std::vector<AdapterInfo> AdapterSet::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<AdapterInfo> list;
  for (const Entry& entry : entries_)
    if (entry.loaded) list.push_back(entry.loaded->info);
  return list;
}

std::vector<AdapterStats> AdapterSet::stats() const {
  const std::lock_guard lock(mutex_);
  std::vector<AdapterStats> stats;
  for (const Entry& entry : entries_) {
    const auto loaded = entry.used.lock();
    if (!loaded) continue;
    stats.push_back({.id = loaded->info.id,
                     .name = loaded->info.name,
                     .bytes = loaded->info.bytes,
                     .running = loaded->running.load(),
                     .waiting = loaded->waiting.load(),
                     .unloading = entry.loaded == nullptr});
  }
  return stats;
}

}  // namespace monolith
