// Loading: bytes of every slot, and filling them. The list itself is weight_slots.cc's.
#include "model/weights.h"

#include <algorithm>

namespace monolith {
namespace {

// Floats a vector takes in the backend.
size_t vector_bytes(const WeightSlot& slot) {
  return static_cast<size_t>(slot.cols) * sizeof(float);
}

// The part of its tensor's bytes that a slot takes.
struct Part {
  size_t offset, size;
};
Part part_of(const WeightSlot& slot) {
  const TensorTypeTraits& traits = traits_of(slot.tensor->type);
  const auto bytes = [&traits](int64_t values) {
    return static_cast<size_t>(values / traits.block_values * traits.block_bytes);
  };
  const int64_t before = slot.vector != nullptr ? slot.first : slot.first * slot.cols;
  return {bytes(before), bytes(slot.rows * slot.cols)};
}

size_t slot_bytes(const WeightSlot& slot, const Loading& backend) {
  return slot.vector != nullptr ? vector_bytes(slot)
                                : backend.matrix_bytes(slot.tensor->kept_as(), slot.rows, slot.cols);
}

}  // namespace

Status check_fp8(const std::vector<WeightSlot>& slots, const Backend& backend) {
  if (backend.keeps_fp8()) return {};
  for (const WeightSlot& slot : slots) {
    if (slot.matrix == nullptr || !slot.tensor->fp8) continue;
    return Error{ErrorCode::kUnsupported,
                 "'quantize' is fp8, which needs a CUDA device: the device is " + backend.info().name};
  }
  return {};
}

size_t weight_bytes(const std::vector<WeightSlot>& slots, const Loading& backend) {
  size_t total = 0;
  for (const WeightSlot& slot : slots) total += slot_bytes(slot, backend);
  return total;
}

size_t weight_memory(const std::vector<WeightSlot>& slots, const Loading& backend) {
  size_t total = 0;
  for (const WeightSlot& slot : slots) total += backend.memory_of(slot_bytes(slot, backend));
  return total;
}

Status load_weights(const GgufFile& file, std::vector<WeightSlot>& slots, Loading& backend,
                    const Model::Progress& progress, size_t& allocated) {
  size_t total = 0, done = 0;
  int64_t longest_vector = 0;
  for (const WeightSlot& slot : slots) {
    total += part_of(slot).size;
    if (slot.vector != nullptr) longest_vector = std::max(longest_vector, slot.cols);
  }
  std::vector<float> decoded(static_cast<size_t>(longest_vector));
  std::vector<std::byte> scratch;
  for (WeightSlot& slot : slots) {
    const GgufTensor& tensor = *slot.tensor;
    const Part part = part_of(slot);
    const std::span<const std::byte> data = file.read(tensor, part.offset, part.size, scratch);
    if (slot.vector != nullptr) {
      auto memory = backend.allocate(slot.cols);
      if (!memory) return memory.error();
      dequantize(tensor.type, data.data(), slot.cols, decoded.data());
      backend.write_floats(*memory, decoded.data(), slot.cols);
      *slot.vector = *memory;
      allocated += vector_bytes(slot);
    } else {
      auto matrix = backend.matrix({tensor.type, slot.rows, slot.cols, data, tensor.fp8});
      if (!matrix)
        return Error{matrix.error().code, "tensor '" + slot.name + "': " + matrix.error().message};
      *slot.matrix = std::move(*matrix);
      allocated += (*slot.matrix)->bytes;
    }
    // The repacked copy is what will be read from now on: without this, both would count as resident.
    file.give_back(tensor, part.offset, part.size);
    done += part.size;
    if (progress)
      progress(total == 0
                   ? 1.0f
                   : static_cast<float>(static_cast<double>(done) / static_cast<double>(total)));
  }
  return {};
}

}  // namespace monolith
