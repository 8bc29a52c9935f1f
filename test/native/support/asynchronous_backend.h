// The CPU backend disguised as an asynchronous device: it samples tokens and claims to compute in the background,
// although every operation completes immediately. With this backend, tests detect code that reads results too early or
// too late, even if models are fast.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "check.h"
#include "engine/sampling/sampler.h"
#include "backend/forwarding_backend.h"

namespace monolith::testing {

class AsynchronousBackend final : public ForwardingBackend {
 public:
  explicit AsynchronousBackend(std::unique_ptr<Backend> inner) : ForwardingBackend(*inner), owned_(std::move(inner)) {}

  bool is_asynchronous() const override { return true; }
  // Called whenever the engine waits for the device. May throw, as a failed device would.
  std::function<void()> on_wait;

  void wait() override {
    if (on_wait) on_wait();
  }
  bool can_sample(int) const override { return true; }
  Status reserve_samples(int n_vocab, int) override {
    sampler_ = std::make_unique<Sampler>(n_vocab);
    return {};
  }
  void sample(int, std::span<const SampleTask> tasks, std::span<SampleResult> results) override {
    wait();
    for (size_t i = 0; i < tasks.size(); ++i) sampler_->sample(tasks[i], results[i]);
  }
  void begin_sample(int, std::span<const SampleTask> tasks) override {
    begun_.resize(tasks.size());
    for (size_t i = 0; i < tasks.size(); ++i) sampler_->sample(tasks[i], begun_[i]);
  }
  void end_sample(int, std::span<const SampleTask> tasks, std::span<SampleResult> results) override {
    CHECK_EQ(tasks.size(), begun_.size());
    wait();
    std::copy(begun_.begin(), begun_.end(), results.begin());
  }

 private:
  const std::unique_ptr<Backend> owned_;
  std::unique_ptr<Sampler> sampler_;
  std::vector<SampleResult> begun_;
};

}  // namespace monolith::testing
