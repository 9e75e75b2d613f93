#include "planner/spec/field_files.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

namespace adjoin {
namespace {

const google::protobuf::OneofDescriptor& Source() { return *Field::descriptor()->FindOneofByName("source"); }

// Null where the spec names no source.
const google::protobuf::FieldDescriptor* SourceOf(const Field& field) {
  return field.GetReflection()->GetOneofFieldDescriptor(field, &Source());
}

bool HoldsFiles(const google::protobuf::FieldDescriptor& source) { return source.message_type() == File::descriptor(); }

}  // namespace

const File* FilesOf(const Field& field) {
  const google::protobuf::FieldDescriptor* const source = SourceOf(field);
  if (source == nullptr || !HoldsFiles(*source)) return nullptr;
  return google::protobuf::DynamicCastToGenerated<File>(&field.GetReflection()->GetMessage(field, source));
}

std::string SourceName(const Field& field) {
  const google::protobuf::FieldDescriptor* const source = SourceOf(field);
  return source == nullptr ? "" : source->name();
}

std::vector<std::string> FileSourceNames() {
  std::vector<std::string> names;
  for (int i = 0; i < Source().field_count(); ++i) {
    if (HoldsFiles(*Source().field(i))) names.push_back(Source().field(i)->name());
  }
  return names;
}

}  // namespace adjoin
