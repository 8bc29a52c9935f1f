// What could never be completed, taken away.
#include "text/grammar/schema_compiler.h"

#include <algorithm>

namespace monolith::grammar {

// Takes away what never could be; false if that is the root. A least fixed point: a shape counts once something
// of it can be completed with what counts already.
bool SchemaCompiler::prune() {
  auto& shapes = out_->shapes_;
  std::vector<bool> good(shapes.size(), false);
  for (Shape& shape : shapes) {
    if (!pool_->alive(shape.scalar)) shape.scalar = ExpressionPool::kNothing;
    if (!pool_->alive(shape.string)) shape.string = ExpressionPool::kNothing;
  }
  const auto object_is_good = [&](const ObjectShape& object) {
    uint32_t possible = 0, required = 0;
    for (const auto& property : object.properties) {
      const bool can = property.shape != kNoShape && good[property.shape];
      if (property.required && !can) return false;
      required += property.required;
      possible += can;
    }
    const bool endless = std::ranges::any_of(object.others, [&](const auto& other) { return good[other.shape]; });
    if (required > object.most) return false;
    return endless || possible >= object.least;
  };
  const auto array_is_good = [&](const ArrayShape& array) {
    uint32_t can = 0;
    while (can < array.prefix.size() && good[array.prefix[can]]) ++can;
    if (can >= array.least) return true;
    return can == array.prefix.size() && array.rest != kNoShape && good[array.rest];
  };
  for (bool changed = true; changed;) {
    changed = false;
    if (!spend(shapes.size())) return false;
    for (ShapeId id = 0; id < shapes.size(); ++id) {
      if (good[id]) continue;
      const Shape& shape = shapes[id];
      good[id] = shape.scalar != ExpressionPool::kNothing || shape.string != ExpressionPool::kNothing ||
                 std::ranges::any_of(shape.objects, [&](uint32_t o) { return object_is_good(out_->objects_[o]); }) ||
                 std::ranges::any_of(shape.arrays, [&](uint32_t a) { return array_is_good(out_->arrays_[a]); });
      changed = changed || good[id];
    }
  }
  for (Shape& shape : shapes) {
    std::erase_if(shape.objects, [&](uint32_t o) { return !object_is_good(out_->objects_[o]); });
    std::erase_if(shape.arrays, [&](uint32_t a) { return !array_is_good(out_->arrays_[a]); });
  }
  for (ObjectShape& object : out_->objects_) {
    for (auto& property : object.properties)
      if (property.shape != kNoShape && !good[property.shape]) property.shape = kNoShape;
    std::erase_if(object.others, [&](const auto& other) { return !good[other.shape]; });
  }
  for (ArrayShape& array : out_->arrays_) {
    for (uint32_t i = 0; i < array.prefix.size(); ++i) {
      if (good[array.prefix[i]]) continue;
      array.most = std::min(array.most, i);
      break;
    }
    if (array.rest != kNoShape && !good[array.rest]) array.rest = kNoShape;
    if (array.rest == kNoShape) array.most = std::min(array.most, static_cast<uint32_t>(array.prefix.size()));
  }
  return good[out_->root_];
}

}  // namespace monolith::grammar
