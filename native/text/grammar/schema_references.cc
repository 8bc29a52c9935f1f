// Resolves a $ref within the schema.
#include "text/grammar/schema_compiler.h"

#include <cstdlib>

namespace monolith::grammar {

json::Id SchemaCompiler::through_refs(json::Id schema) {
  for (int i = 0; i < 16 && doc_.is(schema, Kind::kObject); ++i) {
    const json::Id ref = doc_.member(schema, "$ref");
    if (!doc_.is(ref, Kind::kString)) return schema;
    if (!ref_stands_alone_ && doc_.members(schema).size() > 1) return schema;
    const json::Id target = resolve(doc_.text(ref));
    if (target == json::kAbsent) return schema;
    schema = target;
  }
  return schema;
}

json::Id SchemaCompiler::resolve(const std::string& ref) {
  if (ref.starts_with("#")) return at_fragment(root_, ref.substr(1));
  if (ids_.empty()) index_ids();
  const size_t hash = ref.find('#');
  const std::string base = ref.substr(0, hash);
  auto found = ids_.find(base);
  // A relative reference refers to the document whose absolute ID ends with the reference.
  if (found == ids_.end()) {
    for (auto at = ids_.begin(); at != ids_.end(); ++at)
      if (at->first.ends_with("/" + base)) found = at;
  }
  if (found == ids_.end()) return json::kAbsent;
  return hash == std::string::npos ? found->second : at_fragment(found->second, ref.substr(hash + 1));
}

void SchemaCompiler::index_ids() {
  ids_.emplace("\x01", json::kAbsent);
  for (json::Id id = 0; id < doc_.size(); ++id)
    for (const char* keyword : {"$id", "id"})
      if (const json::Id name = doc_.member(id, keyword); doc_.is(name, Kind::kString)) {
        std::string text = doc_.text(name);
        if (text.ends_with("#")) text.pop_back();
        if (!text.empty()) ids_.emplace(text, id);
      }
}

json::Id SchemaCompiler::at_fragment(json::Id base, const std::string& fragment) {
  if (fragment.empty()) return base;
  if (fragment[0] != '/') {
    for (json::Id id = 0; id < doc_.size(); ++id) {
      for (const char* keyword : {"$anchor", "$dynamicAnchor"})
        if (const json::Id name = doc_.member(id, keyword); doc_.is(name, Kind::kString) && doc_.text(name) == fragment)
          return id;
      for (const char* keyword : {"$id", "id"})
        if (const json::Id name = doc_.member(id, keyword);
            doc_.is(name, Kind::kString) && doc_.text(name) == "#" + fragment)
          return id;
    }
    return json::kAbsent;
  }
  json::Id at = base;
  size_t begin = 1;
  while (begin <= fragment.size()) {
    size_t end = fragment.find('/', begin);
    if (end == std::string::npos) end = fragment.size();
    std::string step;
    for (size_t i = begin; i < end; ++i) {
      if (fragment[i] == '~' && i + 1 < end)
        step += fragment[++i] == '1' ? '/' : '~';
      else if (fragment[i] == '%' && i + 2 < end)
        step += static_cast<char>(std::strtol(fragment.substr(i + 1, 2).c_str(), nullptr, 16)), i += 2;
      else
        step += fragment[i];
    }
    if (doc_.is(at, Kind::kArray)) {
      const size_t index = static_cast<size_t>(std::strtoul(step.c_str(), nullptr, 10));
      at = index < doc_.items(at).size() ? doc_.items(at)[index] : json::kAbsent;
    } else {
      at = doc_.member(at, step);
    }
    if (at == json::kAbsent) return json::kAbsent;
    begin = end + 1;
  }
  return at;
}

}  // namespace monolith::grammar
