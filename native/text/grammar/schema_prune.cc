// Removes from the shapes everything for which no complete text exists.
#include "text/grammar/schema_compiler.h"

#include <algorithm>

#include "text/grammar/object_members.h"

namespace monolith::grammar {

// `has_rest`, `has_matching`: whether items of the shapes `rest` and `matching` are possible. Only for arrays that
// count matches.
bool ArrayShape::can_be_completed(uint32_t n, uint32_t n_matches, bool has_rest, bool has_matching) const {
  if (n > most || n_matches > most_matches) return false;
  const uint32_t items_needed = n < least ? least - n : 0, items_left = most - n;
  const uint32_t matches_needed = n_matches < least_matches ? least_matches - n_matches : 0;
  const uint32_t matches_left = most_matches - n_matches;
  if (!has_matching) return matches_needed == 0 && (has_rest || items_needed == 0);
  const uint32_t needed = std::max(items_needed, matches_needed);
  return needed <= items_left && (has_rest || needed <= matches_left);
}

// Removes impossible shapes, properties and items. Returns false if the root itself is impossible. The possible shapes
// are a least fixed point: a shape is possible once one of its values can be completed using only shapes that are
// already known to be possible.
bool SchemaCompiler::prune() {
  auto& shapes = out_->shapes_;
  std::vector<bool> good(shapes.size(), false);
  for (Shape& shape : shapes) {
    if (!pool_->alive(shape.scalar)) shape.scalar = ExpressionPool::kNothing;
    if (!pool_->alive(shape.string)) shape.string = ExpressionPool::kNothing;
  }
  Fuel fuel = pool_->fuel().within(options_.most_steps - std::min(steps_, options_.most_steps));
  const uint64_t had = fuel.left();
  // Returns which properties are possible: the shape of the property, and of every property that it requires, can be
  // completed.
  const auto can_be = [&](const ObjectShape& object) {
    std::vector<bool> can(object.properties.size());
    for (size_t i = 0; i < can.size(); ++i)
      can[i] = object.properties[i].shape != kNoShape && good[object.properties[i].shape];
    if (!drop_unmet(object, can, fuel)) takes_too_long();
    return can;
  };
  const auto object_is_good = [&](const ObjectShape& object) {
    std::vector<bool> must(object.properties.size());
    for (size_t i = 0; i < must.size(); ++i) must[i] = object.properties[i].required;
    uint64_t n_others = 0;
    uint32_t offered = 0;
    bool together = false;
    for (const auto& other : object.others) {
      if (!good[other.shape]) continue;
      if (other.marks == 0) n_others += other.n;
      offered |= other.marks;
      together = together || other.marks == object.marks;
    }
    const auto marked = members_for_marks(object.marks, offered, together);
    if (object.least > object.most || !marked || *marked > object.most) return false;
    const uint64_t from_others = std::max<uint64_t>(n_others, *marked);
    const auto can =
        can_have(object, std::move(must), can_be(object), object.least - std::min<uint64_t>(object.least, from_others),
                 object.most - *marked, fuel);
    if (!can) takes_too_long();
    return can.value_or(false);
  };
  const auto array_is_good = [&](const ArrayShape& array) {
    if (array.unique && array.n_values < array.least) return false;
    const auto is_good = [&](ShapeId shape) { return shape != kNoShape && good[shape]; };
    if (array.counts_matches) return array.can_be_completed(0, 0, is_good(array.rest), is_good(array.matching));
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
    const std::vector<bool> can = can_be(object);
    for (size_t i = 0; i < can.size(); ++i)
      if (!can[i]) object.properties[i].shape = kNoShape;
    std::erase_if(object.others, [&](const auto& other) { return !good[other.shape]; });
  }
  for (ArrayShape& array : out_->arrays_) {
    for (uint32_t i = 0; i < array.prefix.size(); ++i) {
      if (good[array.prefix[i]]) continue;
      array.most = std::min(array.most, i);
      break;
    }
    if (array.rest != kNoShape && !good[array.rest]) array.rest = kNoShape;
    if (array.matching != kNoShape && !good[array.matching]) array.matching = kNoShape;
    if (array.rest == kNoShape && array.matching == kNoShape)
      array.most = std::min(array.most, static_cast<uint32_t>(array.prefix.size()));
  }
  spend(had - fuel.left());
  return good[out_->root_];
}

// Makes the items of arrays with uniqueItems comparable. Only scalars and strings can be compared.
void SchemaCompiler::compare_items() {
  const ExprId digit = pool_->set(CodePointSet::of('0', '9')), positive = pool_->set(CodePointSet::of('1', '9'));
  const ExprId whole = pool_->concat(positive, pool_->star(digit));
  const ExprId fraction = pool_->concat(pool_->character('.'), pool_->concat(pool_->star(digit), positive));
  const ExprId minus = pool_->either(ExpressionPool::kEmpty, pool_->character('-'));
  // The expression for scalars, restricted so that each value can be written in only one way: numbers without an
  // exponent, without trailing zeros and without -0, and the literal words.
  const ExprId once = pool_->either({pool_->character('0'), pool_->concat(minus, whole),
                                     pool_->concat(minus, pool_->concat(whole, fraction)),
                                     pool_->concat(minus, pool_->concat(pool_->character('0'), fraction)),
                                     pool_->literal("null"), pool_->literal("true"), pool_->literal("false")});
  for (const auto& [id, schema] : unique_) {
    if (!spend()) return;
    ArrayShape& array = out_->arrays_[id];
    if (array.rest == kNoShape) continue;
    const Shape& item = out_->shapes_[array.rest];
    if (!item.objects.empty() || !item.arrays.empty()) {
      unsupported(schema, "uniqueItems", "arrays and objects are not compared");
      continue;
    }
    constexpr uint64_t kMany = 1 << 20;
    array.unique = true;
    array.scalar = pool_->both(item.scalar, once);
    if (!pool_->alive(array.scalar)) array.scalar = ExpressionPool::kNothing;
    const uint64_t n = pool_->count(array.scalar, kMany) + pool_->count(item.string, kMany);
    array.n_values = n < kMany ? static_cast<uint32_t>(n) : kUnbounded;
  }
}

}  // namespace monolith::grammar
