// Memory placement on machines with several NUMA nodes (sockets). Large weight matrices are divided among the nodes,
// each of which has the panels that its own threads compute (docs/internals/memory.md). The pages of all other memory
// are interleaved over all nodes: any thread may process any part of it, so no node is the right one, and with
// interleaving, all nodes contribute bandwidth and none becomes a bottleneck. On a machine with a single node, these
// functions do nothing. Any thread may call them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace monolith {

// Parses a list of nodes in the format used in /sys/devices/system/node, such as "0-1,3". Bit i is set for node i.
// Returns 0 if the list is malformed or contains a node above 63.
uint64_t parse_node_list(std::string_view list);

// Returns a bit mask of the nodes that have memory. There is nothing to interleave unless at least two bits are set.
uint64_t memory_nodes();

// Requests that the untouched pages of [begin, begin + bytes) be allocated from `nodes` in rotation (interleaved).
// `begin` must be on a page boundary. This is only a hint: if the system refuses, as it may in containers, the function
// returns false and the default placement applies.
bool interleave(void* begin, size_t bytes, uint64_t nodes);

// Requests that the untouched pages of [begin, begin + bytes) be allocated from this node as long as it has free
// memory. `begin` must be on a page boundary. Only a hint, like interleave().
bool prefer_node(void* begin, size_t bytes, int node);

}  // namespace monolith
