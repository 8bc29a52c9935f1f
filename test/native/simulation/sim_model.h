// The model of a simulation and what it computes on: pages and slots in memory, read and written as the batch says, by the
// network of network.h. Each position in a page has a mark of whom it was computed for. Faults are thrown as Violation.
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
#include "support/backend_around.h"

namespace monolith::simulation {

// A promise that was not kept.
struct Violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What the simulation throws where a forward pass is to fail.
struct BrokenStep : std::runtime_error {
  BrokenStep() : std::runtime_error("the device is gone") {}
};

inline constexpr uint64_t kNobody = ~uint64_t{0};

struct Cell {
  uint64_t value = 0, owner = kNobody;  // organization
};

struct SimCache final : KvCache {
  std::vector<Cell> cells;  // [page][kPageTokens]
};

// The processor's backend, which is never asked to compute anything; as a device if it is to overlap: then it samples.
class SimBackend final : public testing::BackendAround {
 public:
  SimBackend(Backend& inner, const Setup& setup)
      : BackendAround(inner), asynchronous_(setup.overlaps), loses_copies_(setup.loses_copies) {}

  bool is_asynchronous() const override { return asynchronous_; }
  void copy_page(KvCache& cache, int32_t from, int32_t to) override;
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
  Backend& backend() override { return backend_; }
  const float* forward(const Batch& batch) override;

  // Called with the rows of a step before it is computed: time passes, or it throws.
  std::function<void(const Batch&)> on_forward;
  // Whom a segment is of: its organization.
  std::function<uint64_t(const Segment&)> owner_of;
  // Told whose logits were made not finite in this step.
  std::function<void(const Segment&)> on_spoilt;
  bool spoils = false;  // the next step

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
  std::vector<uint64_t> rows_, inputs_;  // of a step: what logits are made of; what goes in
  std::vector<float> logits_;
};

}  // namespace monolith::simulation
