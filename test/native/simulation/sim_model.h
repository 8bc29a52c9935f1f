// The model in a simulation, and its memory: pages and state slots that the network in network.h reads and writes as
// the batch specifies. Each position in a page records the organization for which it was computed. Errors are thrown as
// Violation.
#pragma once

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "engine/sampling/sampler.h"
#include "model/model.h"
#include "simulation/scenario.h"
#include "backend/forwarding_backend.h"

namespace monolith::simulation {

// Thrown when an invariant of the engine is violated.
struct Violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Thrown by the simulated model to make a forward pass fail.
struct BrokenStep : std::runtime_error {
  BrokenStep() : std::runtime_error("the device is gone") {}
};

inline constexpr uint64_t kNobody = ~uint64_t{0};

struct Cell {
  uint64_t value = 0, owner = kNobody;  // `owner`: the organization for which the value was computed.
};

struct SimCache final : KvCache {
  std::vector<Cell> cells;  // Stored positions, as [page][kPageTokens].
};

// Wraps a CPU backend but computes nothing. If Setup::overlaps is set, it reports itself as asynchronous, so that steps
// overlap and sampling takes place on the device.
class SimBackend final : public ForwardingBackend {
 public:
  SimBackend(Backend& inner, const Setup& setup)
      : ForwardingBackend(inner), asynchronous_(setup.overlaps), loses_copies_(setup.loses_copies) {}

  bool is_asynchronous() const override { return asynchronous_; }
  void copy_page(KvCache& cache, int32_t from, int32_t to) override;
  void read_page(const KvCache& cache, int32_t page, std::byte* host_to) override;
  void write_page(KvCache& cache, int32_t page, const std::byte* host_from) override;
  bool can_sample(int) const override { return asynchronous_; }
  Status reserve_samples(int n_vocab, int) override;
  void sample(int, std::span<const SampleTask> tasks, std::span<SampleResult> results) override;
  void begin_sample(int, std::span<const SampleTask> tasks) override;
  void end_sample(int, std::span<const SampleTask> tasks, std::span<SampleResult> results) override;

 private:
  const bool asynchronous_, loses_copies_;
  std::unique_ptr<Sampler> sampler_;
  std::vector<SampleResult> begun_;
};

class SimModel final : public Model {
 public:
  SimModel(const Setup& setup, SimBackend& backend);

  const HyperParams& params() const override { return params_; }
  const ModelLimits& limits() const override { return limits_; }
  const MemoryPlan& memory() const override { return memory_; }
  KvCache& kv() override { return cache_; }
  LayerSlots state_slots() override { return {reinterpret_cast<float*>(states_.data()), sizeof(Cell) / sizeof(float)}; }
  Backend& backend() override { return backend_; }
  const float* forward(const Batch& batch) override;

  // Called with the batch of each step before the step is computed. May advance the clock or throw.
  std::function<void(const Batch&)> on_forward;
  // Returns the organization that owns a segment.
  std::function<uint64_t(const Segment&)> owner_of;
  // Called for each segment whose logits were made non-finite in this step.
  std::function<void(const Segment&)> on_spoilt;
  bool spoils = false;  // Make the next step's logits non-finite.

 private:
  struct Reading;
  uint64_t& at(const Reading& reading, int table, int position);
  void run_segment(const Batch& batch, size_t index, size_t n_segments);
  void check_size(const Batch& batch) const;

  SimBackend& backend_;
  const Shape shape_;
  HyperParams params_{};
  ModelLimits limits_;
  MemoryPlan memory_{};
  SimCache cache_;
  std::vector<Cell> states_;
  std::vector<uint64_t> rows_, inputs_;  // Per token in a step: the hash that determines its logits, and its input.
  std::vector<float> logits_;
};

}  // namespace monolith::simulation
