// Memory of machines with several nodes (sockets): spread over all of them. Any thread may take any
// piece of a matrix or of the KV pages, so no node is the right one for a piece; interleaved, every node
// gives its bandwidth, and none is asked for everything. On one node nothing happens.
// Any thread may call; nothing is kept but what the system says of its nodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace monolith {

// A list of nodes as /sys/devices/system/node writes it, "0-1,3": bit i for node i. 0 if it is anything
// else, or names a node past 63.
uint64_t parse_node_list(std::string_view list);

// The nodes that have memory; 0 or one bit where there is nothing to choose.
uint64_t memory_nodes();

// Asks for the pages of [begin, begin + bytes), which nobody has touched yet, to come from `nodes` in
// turn. `begin` is at a page's edge. A hint: false where the system refuses (containers may), and then
// memory comes from wherever it would have come from.
bool interleave(void* begin, size_t bytes, uint64_t nodes);

}  // namespace monolith
