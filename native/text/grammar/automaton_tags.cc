// Tag syntax (Spelling::item): object members are written as <name>VALUE</name> and array items as <item>VALUE</item>,
// nested to any depth. A string value is written without quotes, unless it could be mistaken for a JSON value of
// another type that its schema allows. Parsers resolve such cases by the types in the schema.
#include "text/grammar/automaton.h"

#include <algorithm>

namespace monolith::grammar {
namespace {

// Returns the shape of the item at `index`, or kNoShape if the array cannot have such an item.
ShapeId item_shape(const ArrayShape& array, size_t index) {
  if (index >= array.most) return kNoShape;
  return index < array.prefix.size() ? array.prefix[index] : array.rest;
}

}  // namespace

// Returns the literal that closes the open member of `frame`, or the literal that opens an item. For an undeclared
// name, returns only the part before the name: the closing tag accepts any name, so that names need not be remembered.
const std::string& Automaton::closing_tag(uint32_t frame_id, bool opens_item) {
  const Frame& frame = frames_[frame_id];
  const Spelling& spelling = *options_.spelling;
  constexpr uint32_t kItem = UINT32_MAX;  // Used in place of an object ID in the cache key.
  const auto keep = [&](uint32_t object, uint32_t property, const std::string& before,
                        const std::string& name) -> const std::string& {
    const auto [found, is_new] = closing_tags_.try_emplace(uint64_t{object} << 32 | property);
    if (is_new) found->second = before + name + spelling.json_open;
    return found->second;
  };
  if (!frame.is_object)
    return keep(kItem, opens_item, opens_item ? spelling.name_open : spelling.value_close, spelling.item);
  const auto& properties = schema_.object(frame.shape).properties;
  if (frame.open > properties.size()) return spelling.value_close;
  return keep(frame.shape, frame.open, spelling.value_close, properties[frame.open - 1].name);
}

// Continues after the literal returned by closing_tag().
void Automaton::close_tag(uint32_t frame_id) {
  const Frame& frame = frames_[frame_id];
  if (!frame.is_object || frame.open <= schema_.object(frame.shape).properties.size()) return end_tag(frame_id);
  const ExprId name = pool_.repeat(pool_.set(Spelling::name_characters()), 1, kUnbounded);
  put_lex(Phase::kCloseName, {name}, frame_id);
}

// Returns whether null is the only value of the shape that is not a string.
bool Automaton::is_nullable(const Shape& shape) {
  return shape.objects.empty() && shape.arrays.empty() && shape.scalar != ExpressionPool::kNothing &&
         !pool_.alive(pool_.both(shape.scalar, pool_.negate(pool_.literal("null"))));
}

// Expression for an unquoted string, or for null if the shape allows it. Returns kNothing if no string is possible.
ExprId Automaton::tagged_text(ShapeId shape_id) {
  if (const auto known = tagged_texts_.find(shape_id); known != tagged_texts_.end()) return known->second;
  const Shape& shape = schema_.shape(shape_id);
  ExprId text = text_of(shape_id * 2);
  if (shape.string == ExpressionPool::kNothing || !pool_.alive(text)) {
    text = ExpressionPool::kNothing;
  } else if (shape.scalar != ExpressionPool::kNothing || !shape.objects.empty() || !shape.arrays.empty()) {
    if (is_nullable(shape)) {
      text = pool_.either(text, pool_.both(shape.scalar, pool_.literal("null")));
    } else {
      const ExprId any = pool_.star(pool_.set(CodePointSet::all()));
      const auto one_of = [&](std::string_view characters) {
        CodePointSet set;
        for (const char c : characters) set.add(static_cast<uint32_t>(c), static_cast<uint32_t>(c));
        return pool_.set(set);
      };
      const ExprId spaces = pool_.star(one_of("\t\n\r "));
      std::vector<ExprId> words;
      for (const std::string_view word : Spelling::kWords) words.push_back(pool_.literal(word));
      // Also excludes all strings that consist only of characters that occur in numbers.
      words.push_back(pool_.concat(one_of("-0123456789"), pool_.star(one_of("+-.0123456789eE"))));
      std::vector<ExprId> json = {pool_.concat(pool_.set(Spelling::json_beginnings()), any),
                                  pool_.concat(pool_.either(std::move(words)), spaces)};
      text = pool_.both(text, pool_.negate(pool_.concat(spaces, pool_.either(std::move(json)))));
    }
  }
  if (!failed()) tagged_texts_.emplace(shape_id, text);
  return text;
}

// Starts a value. Its opening tag has already been read.
void Automaton::begin_tagged_value(ShapeId shape_id, uint32_t frame) {
  const Shape& shape = schema_.shape(shape_id);
  const ExprId text = tagged_text(shape_id);
  const bool has_text = text != ExpressionPool::kNothing;
  if (has_text) begin_text(Phase::kBare, text, frame);
  // If the value may be a string or something else, scalars and all other values that are not strings are written as
  // JSON.
  const bool has_others = shape.scalar != ExpressionPool::kNothing || !shape.objects.empty() || !shape.arrays.empty();
  const bool as_json = has_text ? has_others && !is_nullable(shape)
                                : shape.scalar != ExpressionPool::kNothing || shape.string != ExpressionPool::kNothing;
  if (as_json) put({Phase::kValue, shape_id, 0, frame});
  // Empty content means an empty string if strings are allowed, otherwise an empty array if arrays are allowed,
  // otherwise an empty object.
  for (const uint32_t id : shape.objects) {
    Progress fresh;
    fresh.object = id;
    fresh.seen.resize((schema_.object(id).properties.size() + 63) / 64);
    const uint32_t inner = intern_frame({true, id, intern_progress(std::move(fresh)), frame});
    const Progress& now = progress(frames_[inner].progress);
    const bool has_members = now.keys != ExpressionPool::kNothing;
    if (now.may_close && !has_text && shape.arrays.empty()) complete(frame);
    if (has_members) begin_literal(Phase::kNameOpen, 0, inner);
  }
  for (const uint32_t id : shape.arrays) {
    const ArrayShape& array = schema_.array(id);
    if (array.least == 0 && !has_text) complete(frame);
    if (item_shape(array, 0) != kNoShape) begin_literal(Phase::kItemOpen, 0, intern_frame({false, id, 0, frame}));
  }
}

// Starts an item's value. The item's opening tag has already been read.
void Automaton::begin_item(uint32_t frame_id) {
  const Frame frame = frames_[frame_id];
  const ArrayShape& array = schema_.array(frame.shape);
  const ShapeId shape = item_shape(array, frame.progress);
  uint32_t count = frame.progress + 1;
  if (array.most == kUnbounded)
    count = std::min(count, std::max(array.least, static_cast<uint32_t>(array.prefix.size())));
  begin_tagged_value(shape, intern_frame({false, frame.shape, count, frame.parent, 1}));
}

// Called at the end of the closing tag of a member or item.
void Automaton::end_tag(uint32_t frame_id) {
  Frame frame = frames_[frame_id];
  frame.open = 0;
  const uint32_t between = intern_frame(frame);
  if (frame.is_object) return end_member(between);
  const ArrayShape& array = schema_.array(frame.shape);
  if (frame.progress >= array.least) complete(frame.parent);
  if (item_shape(array, frame.progress) != kNoShape) begin_literal(Phase::kItemOpen, 0, between);
}

}  // namespace monolith::grammar
