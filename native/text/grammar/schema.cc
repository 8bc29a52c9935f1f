#include "text/grammar/schema.h"

#include "text/grammar/schema_compiler.h"

namespace monolith::grammar {

std::unique_ptr<Schema> Schema::compile(std::string_view json, const SchemaOptions& options,
                                        std::vector<SchemaProblem>& problems) {
  return SchemaCompiler(options, problems).run(json);
}

size_t Schema::bytes() const {
  size_t bytes = pool_->bytes() + shapes_.size() * sizeof(Shape) + arrays_.size() * sizeof(ArrayShape) +
                 objects_.size() * sizeof(ObjectShape);
  for (const ObjectShape& object : objects_)
    bytes += object.properties.size() * (sizeof(ObjectShape::Property) + 32) +
             object.others.size() * sizeof(ObjectShape::OtherNames) + object.needs.size() * 64;
  return bytes + partition_.n_classes() * 64;
}

std::unique_ptr<Schema> Schema::any_json(bool objects_only) {
  std::vector<SchemaProblem> problems;
  return compile(objects_only ? R"({"type":"object"})" : "true", {}, problems);
}

}  // namespace monolith::grammar
