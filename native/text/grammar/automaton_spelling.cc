// Automaton phases for objects in a non-JSON syntax. These phases read the literals around members, names and strings
// (see spelling.h).
#include "text/grammar/automaton.h"

#include <algorithm>

namespace monolith::grammar {

// Returns whether the object of `frame` is written in the non-JSON syntax. This applies to the outermost object and, if
// `nested` is set, to nested objects.
bool Automaton::is_spelled(uint32_t frame) const {
  return options_.spelling && frame != 0 && frames_[frame].is_object &&
         (frames_[frame].parent == 0 || options_.spelling->nested);
}

const std::string& Automaton::literal(Phase phase, uint32_t frame) {
  const Spelling& spelling = *options_.spelling;
  switch (phase) {
    case Phase::kItemOpen:
    case Phase::kTagClose: return closing_tag(frame, phase == Phase::kItemOpen);
    case Phase::kTagEnd: return spelling.json_open;
    case Phase::kNameOpen: return spelling.name_open;
    case Phase::kTextOpen: return spelling.text_open;
    case Phase::kJsonOpen: return spelling.json_open;
    case Phase::kValueClose: return spelling.value_close;
    case Phase::kStringOpen:
    case Phase::kStringClose: return spelling.string_mark;
    default: return spelling.separator;
  }
}

// Starts reading the literal of `phase`. An empty literal ends immediately.
void Automaton::begin_literal(Phase phase, uint32_t what, uint32_t frame) {
  if (literal(phase, frame).empty())
    end_literal({phase, what, 0, frame});
  else
    put({phase, what, 0, frame});
}

void Automaton::advance_literal(Place place, uint8_t byte) {
  const std::string& text = literal(place.phase, place.frame);
  if (static_cast<uint8_t>(text[place.lex]) != byte) return;
  if (++place.lex < text.size())
    put(place);
  else
    end_literal(place);
}

void Automaton::end_literal(const Place& place) {
  switch (place.phase) {
    case Phase::kNameOpen: {
      const Lex name{progress(frames_[place.frame].progress).keys};
      if (pool_.nullable(name.expression))
        end_name(place.frame, name);  // An empty name is allowed, so the name may end immediately.
      put_lex(Phase::kName, name, place.frame);
      return;
    }
    case Phase::kTextOpen: return begin_text(Phase::kBare, text_of(place.what), place.frame);
    case Phase::kStringOpen: return begin_text(Phase::kMarked, text_of(place.what), place.frame);
    case Phase::kJsonOpen:
      if (in_tags())
        begin_tagged_value(place.what, place.frame);
      else
        put({Phase::kValue, place.what, 0, place.frame});
      return;
    case Phase::kItemOpen: return begin_item(place.frame);
    case Phase::kTagClose: return close_tag(place.frame);
    case Phase::kTagEnd: return end_tag(place.frame);
    case Phase::kStringClose: return complete(place.frame);
    case Phase::kValueClose: return end_member(place.frame);
    default: return begin_literal(Phase::kNameOpen, 0, place.frame);  // kSeparator.
  }
}

// Starts an object, before its first member. If this syntax encloses objects in braces, the opening brace has already
// been read.
void Automaton::begin_members(uint32_t object, uint32_t parent) {
  Progress fresh;
  fresh.object = object;
  fresh.seen.resize((schema_.object(object).properties.size() + 63) / 64);
  const uint32_t frame = intern_frame({true, object, intern_progress(std::move(fresh)), parent});
  const Progress& now = progress(frames_[frame].progress);
  const bool has_members = now.keys != ExpressionPool::kNothing;
  if (now.may_close) end_members(frame);
  if (has_members) begin_literal(Phase::kNameOpen, 0, frame);
}

void Automaton::end_members(uint32_t frame) {
  const uint32_t parent = frames_[frame].parent;
  if (parent == 0 || in_tags())
    complete(parent);
  else
    put({Phase::kBraceClose, 0, 0, frame});
}

void Automaton::end_member(uint32_t frame) {
  const Progress& now = progress(frames_[frame].progress);
  const bool has_members = now.keys != ExpressionPool::kNothing;
  if (now.may_close) end_members(frame);
  if (has_members) begin_literal(Phase::kSeparator, 0, frame);
}

// Called where a name may end. The expression in `lex` carries the tags of the members that have this name.
void Automaton::end_name(uint32_t frame_id, const Lex& lex) {
  const Frame frame = frames_[frame_id];
  const ObjectShape& object = schema_.object(frame.shape);
  const bool is_outermost = frame.parent == 0;
  const Spelling& spelling = *options_.spelling;
  pool_.tags(lex.expression, tags_);
  for (const uint32_t tag : std::vector<uint32_t>(tags_)) {
    const bool is_property = tag < object.properties.size();
    const ShapeId shape_id =
        is_property ? object.properties[tag].shape : object.others[tag - object.properties.size()].shape;
    const uint32_t with =
        intern_frame({true, frame.shape, with_member(frame.progress, tag), frame.parent, in_tags() ? tag + 1 : 0});
    if (in_tags()) {
      begin_literal(Phase::kJsonOpen, shape_id, with);
      continue;
    }
    Spelling::Kind kind = Spelling::Kind::kJson;
    if (is_outermost) kind = is_property ? spelling.kind_of(object.properties[tag].name) : spelling.others;
    const Shape& shape = schema_.shape(shape_id);
    // If the opening literal differs between strings and other values, either one may follow.
    const bool told_apart = is_outermost && spelling.text_open != spelling.json_open;
    if (is_outermost && (told_apart || kind != Spelling::Kind::kJson)) {
      const uint32_t text = shape_id * 2 + (kind == Spelling::Kind::kNullable && !told_apart);
      const bool possible = pool_.alive(text_of(text));
      if (possible) begin_literal(Phase::kTextOpen, text, with);
      const bool has_others =
          shape.scalar != ExpressionPool::kNothing || !shape.objects.empty() || !shape.arrays.empty();
      if (possible && !(told_apart && has_others)) continue;
    }
    begin_literal(Phase::kJsonOpen, shape_id, with);
  }
}

// Expression for a name that the schema does not declare. The non-JSON syntax has no quotation marks around names, so
// only plain name characters are allowed.
ExprId Automaton::other_name(uint32_t object, uint32_t index) {
  const ExprId name = schema_.object(object).others[index].name;
  if (!options_.spelling) return name;
  const auto& outermost = schema_.shape(schema_.root()).objects;
  const bool spelled =
      options_.spelling->nested || in_tags() || std::ranges::find(outermost, object) != outermost.end();
  if (!spelled) return without_end(name);
  return pool_.both(name, pool_.repeat(pool_.set(Spelling::name_characters()), 1, kUnbounded));
}

// Expression for an unquoted string. `what`: twice the index of the shape, plus 1 if null is allowed too.
ExprId Automaton::text_of(uint32_t what) {
  if (const auto known = texts_.find(what); known != texts_.end()) return known->second;
  const Shape& shape = schema_.shape(what / 2);
  ExprId text = without_end(shape.string);
  if (what % 2 != 0) text = pool_.either(text, pool_.both(shape.scalar, pool_.literal("null")));
  if (!failed()) texts_.emplace(what, text);
  return text;
}

// Restricts `text` to strings that do not contain the string delimiter.
ExprId Automaton::without_end(ExprId text) {
  const ExprId any = pool_.star(pool_.set(CodePointSet::all()));
  for (const std::string* end : {&options_.spelling->text_end, &options_.spelling->mark_text}) {
    if (end->empty()) continue;
    text = pool_.both(text, pool_.negate(pool_.concat(any, pool_.concat(pool_.literal(*end), any))));
  }
  return text;
}

// Expression for a string inside JSON. The string must not contain the delimiter of the surrounding text, because
// parsers look for the first delimiter. If no text satisfies this restriction, the restriction is dropped.
ExprId Automaton::json_string_of(ShapeId shape) {
  if (!options_.spelling || options_.spelling->text_end.empty() ||
      schema_.shape(shape).string == ExpressionPool::kNothing)
    return schema_.shape(shape).string;
  const ExprId text = text_of(shape * 2);
  return pool_.alive(text) ? text : schema_.shape(shape).string;
}

void Automaton::begin_text(Phase phase, ExprId text, uint32_t frame) {
  if (!pool_.alive(text)) return;
  if (pool_.nullable(text)) end_text(phase, frame);
  put_lex(phase, {text}, frame);
}

void Automaton::end_text(Phase phase, uint32_t frame) {
  if (phase == Phase::kBare && in_tags())
    complete(frame);
  else if (phase == Phase::kBare)
    begin_literal(Phase::kValueClose, 0, frame);
  else if (phase == Phase::kCloseName)
    begin_literal(Phase::kTagEnd, 0, frame);
  else
    begin_literal(Phase::kStringClose, 0, frame);
}

// Advances by one byte of a name or an unquoted string. If the text may end after this byte, also adds the
// configurations that may follow the text.
void Automaton::advance_text(const Place& place, uint8_t byte) {
  Lex lex = lexes_[place.lex];
  bool at_boundary;
  if (!step_plain_character(lex, byte, at_boundary)) return;
  if (lex.between() && place.phase == Phase::kName)
    end_name(place.frame, lex);
  else if (lex.between() && pool_.nullable(lex.expression))
    end_text(place.phase, place.frame);
  put_lex(place.phase, lex, place.frame);
}

// Expression for scalars in Python notation (True, False, None).
ExprId Automaton::python_scalar(ExprId scalar) {
  if (const auto known = python_.find(scalar); known != python_.end()) return known->second;
  static constexpr std::pair<const char*, const char*> kWords[] = {
      {"true", "True"}, {"false", "False"}, {"null", "None"}};
  std::vector<ExprId> words, ways;
  for (const auto& [json, python] : kWords) {
    if (!pool_.fits(scalar, json)) continue;
    words.push_back(pool_.literal(json));
    ways.push_back(pool_.literal(python));
  }
  if (words.empty()) return scalar;
  ways.push_back(pool_.both(scalar, pool_.negate(pool_.either(std::move(words)))));
  const ExprId all = pool_.either(std::move(ways));
  if (!failed()) python_.emplace(scalar, all);
  return all;
}

// Advances by one byte of the prefix before the value: a digit or letter, or a byte of the literal that ends the
// prefix.
void Automaton::advance_lead(Place place, uint8_t byte) {
  const Lead& lead = options_.lead;
  if (place.phase == Phase::kLead) {
    const bool digit = byte >= '0' && byte <= '9';
    const bool letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
    if ((!digit && !(lead.letters && letter)) || place.lex >= lead.most) return;
    ++place.lex;
    if (place.lex < lead.most) put(place);
    if (place.lex >= lead.least) begin_lead_close(0);
  } else if (static_cast<uint8_t>(lead.close[place.lex]) == byte) {
    begin_lead_close(place.lex + 1);
  }
}

void Automaton::begin_lead_close(uint32_t read) {
  if (read < options_.lead.close.size())
    put({Phase::kLeadClose, 0, read, 0});
  else
    begin_whole();
}

void Automaton::begin_whole() {
  if (!options_.spelling) return put({Phase::kValue, schema_.root(), 0, 0});
  for (const uint32_t object : schema_.shape(schema_.root()).objects) begin_members(object, 0);
}

}  // namespace monolith::grammar
