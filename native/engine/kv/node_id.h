// The ID of a node of the prefix cache. A node has an identity of its own, so it can exist without a page of device
// memory.
#pragma once

#include <cstdint>

namespace monolith {

// A type of its own, which the compiler does not convert to or from PageId.
enum class NodeId : int32_t {};
inline constexpr NodeId kNoNode{-1};

}  // namespace monolith
