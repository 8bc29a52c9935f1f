// Tests parsing of the kernel's NUMA node list, valid and invalid.
#include "backend/cpu/machine/numa.h"

#include "backend/cpu/machine/mapping.h"
#include "check.h"

using namespace monolith;

TEST(node_lists_of_the_kernel_are_parsed) {
  CHECK_EQ(parse_node_list("0\n"), uint64_t{1});
  CHECK_EQ(parse_node_list("0-1"), uint64_t{3});
  CHECK_EQ(parse_node_list("0-1,3"), uint64_t{11});
  CHECK_EQ(parse_node_list("2,4-6\n"), uint64_t{0b1110100});
  CHECK_EQ(parse_node_list("0-63"), ~uint64_t{0});
  CHECK_EQ(parse_node_list("63"), uint64_t{1} << 63);
}

TEST(invalid_node_lists_give_no_node) {
  for (const char* list : {"", "\n", "x", "-", "-1", "0-", "1-0", "0-64", "64", "0,", ",0", "0,,1", "0 1", "0-1-2",
                           "99999999999999999999"})
    CHECK_EQ(parse_node_list(list), uint64_t{0});
}

TEST(interleave_skips_a_single_node_and_ignores_errors) {
  CHECK(!interleave(nullptr, 4096, 0));
  CHECK(!interleave(nullptr, 4096, 1));
  auto mapping = Mapping::create(size_t{8} << 20);
  REQUIRE(mapping.ok());
  interleave(mapping->data(), mapping->size(), 3);  // Interleaves across a NUMA node that may not exist.
  for (size_t i = 0; i < mapping->size(); i += 4096) mapping->data()[i] = std::byte{7};
  CHECK(mapping->data()[mapping->size() - 4096] == std::byte{7});
}
