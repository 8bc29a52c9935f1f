// Any bytes: refused in words that begin with the file's name, or tensors that lie within them.
#include "formats/hf/safetensors.h"
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
    insist(tensor.data.empty() || (tensor.data.data() >= bytes.data() && tensor.data.data() + tensor.data.size() <= bytes.data() + bytes.size()), "a tensor lies in the file");
    for (const int64_t length : tensor.shape) insist(length >= 0, "no length is negative");
    for (const std::byte byte : tensor.data) sum = sum ^ static_cast<uint8_t>(byte);
  }
}
