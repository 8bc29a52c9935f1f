// Tests recurrent layers on the CUDA backend. Results are compared with double precision, and the convolution's results
// are bit-identical to the CPU's. All results must be bit-identical for any division into chunks, any state slots, any
// other sequences in the step, and any order of threads.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend_impl.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/recurrence/slot_chains.h"
#include "check.h"
#include "emulator/emulator.h"
#include "support/recurrence_cases.h"

using namespace monolith;
using namespace monolith::testing;

namespace {

constexpr int kSlots = 6;
constexpr float kNobodys = 1e30f;  // Content of slots that must not be read.

// A backend, with the state slots of one layer in its memory.
class Device {
 public:
  explicit Device(int64_t state_floats) : floats_(state_floats), stride_((state_floats + 15) / 16 * 16) {
    auto made = make_cuda_backend({});
    if (made) backend_ = std::move(*made);
    CHECK(backend_ && backend_->reserve(64, 2048, 64, 64).ok());
    forget();
  }
  Backend& backend() { return *backend_; }
  LayerSlots slots() const { return {slots_, stride_}; }
  void forget() { slots_ = put(std::vector<float>(static_cast<size_t>(stride_ * kSlots), kNobodys)); }
  std::vector<float> state(int32_t slot) const { return get(slots().of(slot), static_cast<size_t>(floats_)); }

  float* put(const std::vector<float>& values) const {
    float* const at = *backend_->allocate(static_cast<int64_t>(values.size()));
    backend_->write_floats(at, values.data(), static_cast<int64_t>(values.size()));
    return at;
  }
  std::vector<float> get(const float* at, size_t n) const {
    std::vector<float> values(n);
    backend_->wait();
    backend_->read_floats(values.data(), at, static_cast<int64_t>(n));
    return values;
  }

  // Segments need no pages here.
  std::vector<float> run(const DeltaCase& one, std::span<const Segment> segments) {
    float* const x = put(one.x);
    float* const out =
        put(std::vector<float>(static_cast<size_t>(one.n_rows * one.rule.n_value_heads * one.rule.value_dim)));
    DeltaRule rule = one.rule;
    rule.rate = put(one.rate);
    rule.decay_bias = put(one.bias);
    backend_->delta_rule(rule, segments, slots(),
                         {.q = x,
                          .k = x + one.keys,
                          .v = x + 2 * one.keys,
                          .stride = one.stride,
                          .decay = put(one.decay),
                          .beta = put(one.beta)},
                         out);
    return get(out, static_cast<size_t>(one.n_rows * rule.n_value_heads * rule.value_dim));
  }
  std::vector<float> run(const StateSpaceCase& one, std::span<const Segment> segments) {
    const float* const x = put(one.x);
    StateSpace space = one.space;
    space.rate = put(one.rate);
    space.step_bias = put(one.bias);
    space.skip = put(one.skip);
    const auto n = static_cast<size_t>(one.n_rows * space.width());
    float* const out = put(std::vector<float>(n));
    backend_->state_space(space, segments, slots(),
                          {.x = x,
                           .b = x + space.width(),
                           .c = x + space.width() + space.group_width(),
                           .stride = one.stride,
                           .group_stride = one.stride,
                           .step = put(one.step)},
                          out);
    return get(out, n);
  }
  std::vector<float> run(const TimeMixCase& one, std::span<const Segment> segments) {
    TimeMix mix = one.mix;
    mix.decay_bias = put(one.decay_bias);
    mix.bonus = put(one.bonus);
    mix.norm_weight = put(one.norm_weight);
    mix.norm_bias = put(one.norm_bias);
    mix.rate_bias = put(one.rate_bias);
    mix.value_bias = put(one.value_bias);
    mix.key_scale = put(one.key_scale);
    mix.key_rate = put(one.key_rate);
    float* const out = put(one.r);
    backend_->time_mix(mix, segments, slots(),
                       {.r = out,
                        .k = put(one.k),
                        .v = put(one.v),
                        .decay = put(one.decay),
                        .gate = put(one.gate),
                        .rate = put(one.rate),
                        .first_v = one.first_layer ? nullptr : put(one.first_v),
                        .value_mix = put(one.value_mix)},
                       out);
    return get(out, one.r.size());
  }
  std::vector<float> run(const ConvolutionCase& one, std::span<const Segment> segments) {
    Convolution convolution = one.convolution;
    convolution.weight = put(one.weight);
    if (convolution.bias) convolution.bias = put(one.bias);
    float* const x = put(one.x);
    backend_->convolve(convolution, segments, slots(), x, one.stride);
    return get(x, one.x.size());
  }

 private:
  std::unique_ptr<Backend> backend_;
  int64_t floats_, stride_;
  float* slots_ = nullptr;
};

// Adds page tables to the segments, because the step tables require them.
std::vector<Segment> with_pages(std::vector<Segment> segments) {
  static const std::vector<int32_t> pages(16);
  for (Segment& segment : segments) segment.pages = pages.data();
  return segments;
}

// A sequence has the same outputs and the same final state regardless of how it is divided into chunks and of the order
// of threads.
template <typename Case>
void check_cuts(Device& device, const Case& one, int rows, const std::string& what) {
  using enum cuda::emulator::Order;
  const std::vector<float> expected = device.run(one, with_pages(pieces(rows, {}, false)));
  const std::vector<float> state = device.state(0);
  for (const auto order : {kAscending, kShuffled})
    for (const std::vector<int>& cuts : {std::vector<int>{rows / 3, 2 * rows / 3}, {1}, {rows - 1}, {1, 2, 3}})
      for (const bool apart : {false, true}) {
        cuda::emulator::set_order(order);
        device.forget();
        const std::vector<Segment> segments = with_pages(pieces(rows, cuts, apart));
        if (!same_bits(device.run(one, segments), expected))
          check::fail(__FILE__, __LINE__, what + ": different output bits");
        if (!same_bits(device.state(segments.back().state_to), state))
          check::fail(__FILE__, __LINE__, what + ": different state");
        CHECK(device.state(5).front() == kNobodys);
      }
  cuda::emulator::set_order(kAscending);
}

}  // namespace

TEST(cuda_convolutions_equal_the_cpus_bit_for_bit) {
  for (const int n_channels : {5, 64, 100})
    for (const int conv_kernel_size : {1, 2, 3, 4, kMaxTaps})
      for (const bool plain : {false, true}) {
        const int rows = n_channels == 64 ? 41 : 19;  // More tokens than the kernel processes at a time.
        const ConvolutionCase one(n_channels, conv_kernel_size, plain, rows);
        const std::string what =
            std::to_string(n_channels) + " channels, " + std::to_string(conv_kernel_size) + " taps";
        Device device(std::max<int64_t>(one.convolution.state_floats(), 1));
        const std::vector<float> got = device.run(one, with_pages(pieces(rows, {}, false)));
        check_near(got, one.expected(), 1e-4, what);
        CpuBackend ops(CpuIsa::kPlain, 1);
        std::vector<float> processors = one.x,
                           state(static_cast<size_t>(std::max<int64_t>(one.convolution.state_floats(), 1)));
        ops.convolve(one.convolution, pieces(rows, {}, false), {state.data(), one.convolution.state_floats()},
                     processors.data(), one.stride);
        CHECK(same_bits(got, processors));
        if (conv_kernel_size > 1) CHECK(same_bits(device.state(0), state));
        check_cuts(device, one, rows, what);
      }
}

TEST(cuda_delta_rule_matches_double_with_any_chunks) {
  for (const DeltaShape& shape : kDeltaShapes) {
    const int rows = shape.key_dim > 64 ? 12 : 23;
    const DeltaCase one(shape, rows);
    const std::string what = "keys of " + std::to_string(shape.key_dim);
    Device device(one.rule.state_floats());
    check_near(device.run(one, with_pages(pieces(rows, {}, false))), one.expected(), 2e-5, what);
    check_cuts(device, one, rows, what);
  }
  // The largest size uses a different kernel.
  const DeltaCase wide({1, 1, 200, 20, false, true}, 9);
  Device device(wide.rule.state_floats());
  check_near(device.run(wide, with_pages(pieces(9, {4}, false))), wide.expected(), 2e-5, "keys of 200");
}

TEST(cuda_state_space_matches_double_with_any_chunks) {
  struct Shape {
    int heads, groups, head_dim, state_dim;
    bool channel_steps = false;
  };
  for (const Shape& shape : {Shape{4, 2, 16, 16},
                             {3, 1, 9, 7},
                             {4, 4, 40, 20},
                             {2, 1, 80, 128},
                             {1, 1, 16, 256},
                             {1, 1, 100, 16, true},
                             {1, 1, 9, 7, true}}) {
    const int rows = shape.state_dim > 64 ? 12 : 23;
    const StateSpaceCase one(shape.heads, shape.groups, shape.head_dim, shape.state_dim, rows, shape.channel_steps);
    const std::string what = "state of " + std::to_string(shape.state_dim);
    Device device(one.space.state_floats());
    const std::vector<double> expected = one.expected();
    double largest = 1;
    for (const double value : expected) largest = std::max(largest, std::abs(value));
    check_near(device.run(one, with_pages(pieces(rows, {}, false))), expected, 2e-6 * largest, what);
    check_cuts(device, one, rows, what);
  }
}

TEST(cuda_time_mixing_matches_double_with_any_chunks) {
  for (const TimeMixCase& one : {TimeMixCase(true, 2, 64, 11), TimeMixCase(true, 3, 32, 11, true),
                                 TimeMixCase(false, 2, 64, 11), TimeMixCase(false, 1, 112, 7)}) {
    const std::string what = "RWKV with heads of " + std::to_string(one.mix.head_dim);
    Device device(one.mix.state_floats());
    check_near(device.run(one, with_pages(pieces(one.n_rows, {}, false))), one.expected(), 2e-5, what);
    check_cuts(device, one, one.n_rows, what);
  }
}

TEST(cuda_token_shift_equals_the_cpus) {
  constexpr int kDim = 150, kRows = 9;
  const std::vector<float> x = random_floats(kRows * kDim, 1), mu = random_floats(kDim, 2),
                           shift = random_floats(kRows * kDim, 3);
  std::vector<float> expected(kRows * kDim), host_state(kDim), mixed(kRows * kDim);
  CpuBackend ops(CpuIsa::kPlain, 1);
  ops.difference_from_previous(pieces(kRows, {}, false), {host_state.data(), kDim}, x.data(), kDim, expected.data());
  const ShiftedInput host{mu.data(), shift.data(), mixed.data()};
  ops.shifted_inputs({&host, 1}, x.data(), expected.data(), RowCount::fixed(kRows), kDim);
  for (const std::vector<int>& cuts : {std::vector<int>{}, {1}, {3, 6}}) {
    Device device(kDim);
    const float* const rows = device.put(x);
    float* const difference = device.put(std::vector<float>(kRows * kDim));
    device.backend().difference_from_previous(with_pages(pieces(kRows, cuts, true)), device.slots(), rows, kDim,
                                              difference);
    CHECK(same_bits(device.get(difference, expected.size()), expected));
    const ShiftedInput input{device.put(mu), device.put(shift), device.put(x)};
    device.backend().shifted_inputs({&input, 1}, rows, difference, RowCount::fixed(kRows), kDim);
    CHECK(same_bits(device.get(input.out, mixed.size()), mixed));
  }
}

// Tests steps in which several forks read the same slot, a segment continues from a slot that another segment in the
// same step wrote, and other sequences have their own states.
TEST(cuda_segments_of_a_step_use_their_own_state) {
  const DeltaCase one({2, 4, 16, 16, true, false}, 16);
  Device device(one.rule.state_floats());
  const std::vector<Segment> step = with_pages({{0, 4, 0, nullptr, kNoSlot, 0},
                                                {4, 4, 4, nullptr, 0, 1},
                                                {8, 4, 4, nullptr, 0, 2},
                                                {12, 4, 0, nullptr, kNoSlot, 3}});
  const std::vector<float> all = device.run(one, step);
  std::vector<std::vector<float>> states;
  for (int32_t slot = 0; slot < 4; ++slot) states.push_back(device.state(slot));
  device.forget();
  for (const Segment& segment : step) {  // Runs the segments one after another.
    const std::vector<float> alone = device.run(one, {&segment, 1});
    const size_t first = static_cast<size_t>(segment.first_row) * 64, n = 4 * 64;
    CHECK(std::memcmp(alone.data() + first, all.data() + first, n * sizeof(float)) == 0);
  }
  for (int32_t slot = 0; slot < 4; ++slot) CHECK(same_bits(device.state(slot), states[static_cast<size_t>(slot)]));
  CHECK(device.state(4).front() == kNobodys);
}

TEST(segments_that_share_a_written_slot_form_a_chain) {
  cuda::SlotChains chains;
  chains.reserve(8);
  const auto linked = [&](const std::vector<Segment>& segments) {
    std::vector<cuda::DeviceSegment> to(segments.size());
    chains.link(segments, to);
    std::vector<int> next;
    for (const cuda::DeviceSegment& segment : to)
      next.push_back(segment.chain_leads ? segment.chain_next : -10 + segment.chain_next);
    return next;
  };
  const auto uses = [](int32_t from, int32_t to) { return Segment{0, 1, 0, nullptr, from, to}; };
  // Expected results: for each segment, the index of the next segment in its chain, or -1 at the end of the chain. If a
  // segment does not start a chain, 10 is subtracted from this number.
  using Links = std::vector<int>;
  CHECK((linked({uses(0, 0), uses(1, 1), uses(kNoSlot, 2)}) == Links{-1, -1, -1}));
  CHECK((linked({uses(7, 1), uses(7, 2), uses(7, 3)}) == Links{-1, -1, -1}));  // Forks of one slot are independent.
  CHECK((linked({uses(kNoSlot, 1), uses(4, 4), uses(1, 2), uses(2, 2)}) == Links{2, -1, -7, -11}));
  CHECK((linked({uses(7, 1), uses(3, 7)}) == Links{1, -11}));  // The slot is written after another segment has read it.
  CHECK((linked({uses(3, 7), uses(4, 7)}) == Links{1, -11}));
  // If a segment belongs to two chains, they are joined into one chain, in the order of the segments.
  CHECK((linked({uses(1, 1), uses(2, 2), uses(5, 5), uses(1, 2)}) == Links{1, -8, -7, -11}));
  CHECK((linked({uses(7, 1), uses(7, 2), uses(3, 7)}) == Links{1, -8, -11}));
  // Segments without recurrent state.
  CHECK((linked({uses(kNoSlot, kNoSlot), uses(kNoSlot, kNoSlot)}) == Links{-1, -1}));
}

TEST(cuda_unsupported_recurrences_are_rejected_by_name) {
  const auto backend = make_cuda_backend({});
  REQUIRE(backend.ok());
  const auto accepted = [&](const auto& wanted) { return (*backend)->supports(wanted).ok(); };
  const auto refused = [&](const auto& wanted, const char* what) {
    const Status status = (*backend)->supports(wanted);
    CHECK(!status.ok() && status.error().code == ErrorCode::kUnsupported &&
          status.error().message.find(what) != std::string::npos);
  };
  CHECK(accepted(DeltaRule{.n_key_heads = 1, .n_value_heads = 1, .key_dim = 256, .value_dim = 256}));
  refused(DeltaRule{.n_key_heads = 1, .n_value_heads = 1, .key_dim = 257, .value_dim = 16},
          "delta rule with keys of 257 dimensions");
  CHECK(accepted(StateSpace{.n_heads = 1, .n_groups = 1, .head_dim = 64, .state_dim = 256}));
  refused(StateSpace{.n_heads = 1, .n_groups = 1, .head_dim = 64, .state_dim = 512}, "state space of 512 dimensions");
  CHECK(accepted(Convolution{.n_channels = 4, .conv_kernel_size = kMaxTaps}));
  refused(Convolution{.n_channels = 4, .conv_kernel_size = kMaxTaps + 1}, "convolution with kernel size 9");
}
