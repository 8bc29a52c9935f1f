// The ID of a node of the prefix cache. It is independent of page ids, so that a node can exist without a page of
// device memory.
#pragma once

#include <cstdint>

namespace monolith {

// A separate type, so that the compiler never converts between it and PageId.
enum class NodeId : int32_t {};
inline constexpr NodeId kNoNode{-1};

}  // namespace monolith
