// A model that forwards all calls to another model. Tests derive from it to change single functions.
#pragma once

#include <memory>
#include <utility>

#include "model/model.h"

namespace monolith::testing {

class ModelAround : public Model {
 public:
  explicit ModelAround(std::unique_ptr<Model> model) : model_(std::move(model)) {}
  const HyperParams& params() const override { return model_->params(); }
  const ModelLimits& limits() const override { return model_->limits(); }
  const MemoryPlan& memory() const override { return model_->memory(); }
  KvCache& kv() override { return model_->kv(); }
  Backend& backend() override { return model_->backend(); }

 protected:
  const std::unique_ptr<Model> model_;
};

}  // namespace monolith::testing
