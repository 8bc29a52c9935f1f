#include "backend/profiled_backend.h"

#include <chrono>
#include <utility>

#include "backend/forwarding_backend.h"

namespace monolith {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

StepProfile::Slot& StepProfile::slot(OperationKind op, int64_t inputs, int64_t outputs) {
  size_t n_shapes = 0;
  for (Slot& slot : slots_) {
    const OperationKind held = slot.op.load(std::memory_order_relaxed);
    if (held == op) {
      const int64_t known = slot.inputs.load(std::memory_order_relaxed);
      if (known == inputs && slot.outputs.load(std::memory_order_relaxed) == outputs) return slot;
      if (known > 0) ++n_shapes;
    }
    if (held != kEmpty) continue;
    if (n_shapes == kMatmulShapes && inputs > 0) return this->slot(op, 0, 0);
    slot.inputs.store(inputs, std::memory_order_relaxed);
    slot.outputs.store(outputs, std::memory_order_relaxed);
    slot.op.store(op, std::memory_order_release);
    return slot;
  }
  return slots_.back();  // Not reached: there is a slot for everything.
}

std::vector<OpFigures> StepProfile::read() const {
  std::vector<OpFigures> all;
  for (const Slot& slot : slots_) {
    const OperationKind op = slot.op.load(std::memory_order_acquire);
    if (op == kEmpty) break;
    OpFigures figures{.name = std::string(name_of(op))};
    const int64_t inputs = slot.inputs.load(std::memory_order_relaxed);
    if (inputs > 0)
      figures.name +=
          " " + std::to_string(inputs) + " x " + std::to_string(slot.outputs.load(std::memory_order_relaxed));
    else if (op == OperationKind::kMatmul)
      figures.name += ", other shapes";
    figures.calls = slot.calls.load(std::memory_order_relaxed);
    figures.nanoseconds = slot.nanoseconds.load(std::memory_order_relaxed);
    figures.bytes = slot.bytes.load(std::memory_order_relaxed);
    figures.operations = slot.operations.load(std::memory_order_relaxed);
    all.push_back(std::move(figures));
  }
  return all;
}

class ProfiledBackend final : public ForwardingBackend {
 public:
  ProfiledBackend(std::unique_ptr<Backend> inner, std::shared_ptr<StepProfile> profile)
      : ForwardingBackend(*inner), owned_(std::move(inner)), profile_(std::move(profile)) {}

  // A profiled step never uses a CUDA graph, because replaying a graph does not call the operations.
  bool begin_step(const StepInput& input) override {
    StepInput watched = input;
    watched.recordable = false;
    return inner_.begin_step(watched);
  }

 protected:
  void before(OperationKind) override { start_ = Clock::now(); }
  void after(OperationKind kind, const OperationWork& work) override {
    const auto took = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_);
    StepProfile::Slot& slot = profile_->slot(kind, work.inputs, work.outputs);
    slot.calls.fetch_add(1, std::memory_order_relaxed);
    slot.nanoseconds.fetch_add(static_cast<uint64_t>(took.count()), std::memory_order_relaxed);
    slot.bytes.fetch_add(work.bytes, std::memory_order_relaxed);
    slot.operations.fetch_add(work.operations, std::memory_order_relaxed);
  }

 private:
  const std::unique_ptr<Backend> owned_;
  const std::shared_ptr<StepProfile> profile_;
  Clock::time_point start_;
};

std::unique_ptr<Backend> make_profiled_backend(std::unique_ptr<Backend> inner, std::shared_ptr<StepProfile> profile) {
  return std::make_unique<ProfiledBackend>(std::move(inner), std::move(profile));
}

}  // namespace monolith
