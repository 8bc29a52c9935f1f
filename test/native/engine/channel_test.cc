// Tests the memory of a channel's buffers: its size is proportional to the records held, and it is released after a
// burst.
#include "engine/loop/channel.h"

#include "check.h"
#include "engine/allocation_hook.h"
#include "engine/loop/event_writer.h"

namespace monolith::testing {
namespace {

// Publishes one step with `bytes` bytes of text.
void publish(Channel& channel, size_t bytes) {
  EventWriter(channel.step_records(), 1, 0).piece(Section::kContent, std::string(bytes, 'x'), 1, {});
  CHECK(channel.publish());
}

TEST(channel_grows_in_proportion_to_its_records) {
  constexpr size_t kStep = size_t{64} << 10, kSteps = 256;  // 16 MiB.
  Channel channel(nullptr, size_t{64} << 20);
  std::vector<std::byte> out;
  allocated_bytes = 0;
  counting = true;
  for (size_t i = 0; i < kSteps; ++i) publish(channel, kStep);
  counting = false;
  channel.drain(out);
  CHECK(out.size() > kStep * kSteps);
  CHECK(out.capacity() <= 2 * out.size());
  // The bound covers all buffers that were allocated while the record buffer doubled its size, and the text of each
  // step.
  CHECK(allocated_bytes < int64_t{6 * kStep * kSteps});
}

TEST(channel_releases_its_buffers_after_a_burst) {
  Channel channel(nullptr, size_t{64} << 20);
  std::vector<std::byte> out;
  for (int i = 0; i < 4; ++i) {  // All buffers take part.
    publish(channel, size_t{8} << 20);
    channel.drain(out);
  }
  for (int i = 0; i < 3; ++i) {
    publish(channel, 100);
    channel.drain(out);
  }
  CHECK(out.capacity() <= Channel::kKeptCapacity);
  CHECK(channel.step_records().capacity() <= Channel::kKeptCapacity);
  channel.drain(out);  // The last of the three buffers.
  CHECK(out.capacity() <= Channel::kKeptCapacity);
}

TEST(channel_keeps_its_buffers_in_a_steady_stream) {
  Channel channel(nullptr, size_t{64} << 20);
  std::vector<std::byte> out;
  const std::string text(8, 'x');
  const auto steps = [&](int n) {
    for (int i = 0; i < n; ++i) {
      for (int record = i % 7; record >= 0; --record)
        EventWriter(channel.step_records(), 1, 0).piece(Section::kContent, text, 1, {});
      channel.publish();
      if (i % 5 == 0) channel.drain(out);
    }
  };
  steps(100);
  allocations = 0;
  counting = true;
  steps(1000);
  counting = false;
  CHECK_EQ(allocations.load(), 0);
}

}  // namespace
}  // namespace monolith::testing
