// Fuzz target: any bytes are either rejected with a message that starts with the file's name, or parsed as a
// safetensors file. All tensors of a parsed file lie within the file.
#include <cstring>

#include "formats/hf/safetensors.h"
#include "fuzz/json_mutator.h"
#include "fuzz/target.h"

using monolith::fuzzing::insist;

FUZZ_TARGET(safetensors) {
  const auto bytes = std::as_bytes(input);
  const auto tensors = monolith::hf::parse_safetensors(bytes, "x.safetensors");
  if (!tensors) {
    insist(tensors.error().message.starts_with("x.safetensors: "), "a refusal names the file", tensors.error().message);
    return monolith::fuzzing::check_refusal(tensors.error());
  }
  volatile uint8_t sum = 0;
  for (const auto& tensor : *tensors) {
    insist(tensor.data.empty() || (tensor.data.data() >= bytes.data() &&
                                   tensor.data.data() + tensor.data.size() <= bytes.data() + bytes.size()),
           "a tensor lies in the file");
    for (const int64_t length : tensor.shape) insist(length >= 0, "no length is negative");
    for (const std::byte byte : tensor.data) sum = sum ^ static_cast<uint8_t>(byte);
  }
  if (!tensors->empty()) ++monolith::fuzzing::n_reached();
}

// A safetensors file: an eight-byte length, a JSON header of that length, and the tensor data.
FUZZ_MUTATOR(safetensors) {
  static constexpr std::string_view kMembers[] = {R"("w": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]})",
                                                  R"("w": {"dtype": "U8", "shape": [], "data_offsets": [0, 1]})",
                                                  R"("__metadata__": {"format": "pt"})",
                                                  R"("dtype": "F8_E4M3")",
                                                  R"("shape": [%])",
                                                  R"("data_offsets": [%, %])"},
                                    kWraps[] = {"[%]", "[%, %]", R"({"a": %})"};
  static monolith::fuzzing::JsonMutator json(kMembers, kWraps);
  uint64_t size = 0;
  if (input.size() < sizeof size) return std::nullopt;
  std::memcpy(&size, input.data(), sizeof size);
  if (size > input.size() - sizeof size) return std::nullopt;
  std::string head = json(input.substr(sizeof size, size), chance);
  // Padded with spaces to a multiple of 8 bytes, as in real safetensors files.
  head.resize((head.size() + 7) / 8 * 8, ' ');
  const uint64_t now = head.size();
  return std::string(reinterpret_cast<const char*>(&now), sizeof now)
      .append(head)
      .append(input.substr(sizeof size + size));
}
