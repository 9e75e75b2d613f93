#include "tests/fuzz/message_mutator.h"

#include <google/protobuf/descriptor.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace adjoin {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

uint32_t Below(uint32_t count, std::mt19937& random) { return random() % count; }

// Small numbers mean something in most fields; the rest is what arithmetic trips over.
int64_t Integer(std::mt19937& random) {
  static constexpr int64_t kEdges[] = {-1,
                                       4096,
                                       65536,
                                       std::numeric_limits<int32_t>::max(),
                                       std::numeric_limits<int32_t>::min(),
                                       std::numeric_limits<uint32_t>::max(),
                                       std::numeric_limits<int64_t>::max(),
                                       std::numeric_limits<int64_t>::min()};
  return Below(4, random) != 0 ? Below(9, random) : kEdges[Below(8, random)];
}

double Real(std::mt19937& random) {
  static constexpr double kEdges[] = {0, -1, 0.5, 1e-300, 1e300, std::numeric_limits<double>::infinity(), NAN, 1};
  return kEdges[Below(8, random)];
}

// Strings of specs are mostly names of other things in it.
void CollectStrings(const Message& message, std::vector<std::string>& strings) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        CollectStrings(field->is_repeated() ? reflection.GetRepeatedMessage(message, field, i)
                                            : reflection.GetMessage(message, field),
                       strings);
      } else if (field->type() == FieldDescriptor::TYPE_STRING) {
        strings.push_back(field->is_repeated() ? reflection.GetRepeatedString(message, field, i)
                                               : reflection.GetString(message, field));
      }
    }
  }
}

std::string Text(const Message& root, std::mt19937& random) {
  static const char* const kOthers[] = {"", "..", "/", "a", "max", "mean", "float64", "zero", "\t\n", "rank_lost"};
  std::vector<std::string> strings;
  CollectStrings(root, strings);
  if (strings.empty() || Below(3, random) == 0) return kOthers[Below(10, random)];
  return strings[random() % strings.size()];
}

// Sets a field that is not repeated, or adds an element to one that is.
void SetField(const Message& root, Message& message, const FieldDescriptor* field, std::mt19937& random) {
  const Reflection& reflection = *message.GetReflection();
  const bool add = field->is_repeated();
  switch (field->cpp_type()) {
#define ADJOIN_SET(kind, Type, value)               \
  case FieldDescriptor::kind:                       \
    if (add)                                        \
      reflection.Add##Type(&message, field, value); \
    else                                            \
      reflection.Set##Type(&message, field, value); \
    break
    ADJOIN_SET(CPPTYPE_INT32, Int32, static_cast<int32_t>(Integer(random)));
    ADJOIN_SET(CPPTYPE_INT64, Int64, Integer(random));
    ADJOIN_SET(CPPTYPE_UINT32, UInt32, static_cast<uint32_t>(Integer(random)));
    ADJOIN_SET(CPPTYPE_UINT64, UInt64, static_cast<uint64_t>(Integer(random)));
    ADJOIN_SET(CPPTYPE_DOUBLE, Double, Real(random));
    ADJOIN_SET(CPPTYPE_FLOAT, Float, static_cast<float>(Real(random)));
    ADJOIN_SET(CPPTYPE_BOOL, Bool, Below(2, random) != 0);
    ADJOIN_SET(CPPTYPE_ENUM, EnumValue, static_cast<int>(Below(field->enum_type()->value_count(), random)));
    ADJOIN_SET(CPPTYPE_STRING, String, Text(root, random));
#undef ADJOIN_SET
    case FieldDescriptor::CPPTYPE_MESSAGE:
      if (add)
        reflection.AddMessage(&message, field);
      else
        reflection.MutableMessage(&message, field);
      break;
  }
}

void MutateRepeated(const Message& root, Message& message, const FieldDescriptor* field, std::mt19937& random) {
  const Reflection& reflection = *message.GetReflection();
  const int size = reflection.FieldSize(message, field);
  if (size == 0 || (Below(3, random) == 0 && size < 64)) {
    if (size > 0 && field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      const Message& copied = reflection.GetRepeatedMessage(message, field, static_cast<int>(random() % size));
      Message* copy = copied.New();
      copy->CopyFrom(copied);
      reflection.AddAllocatedMessage(&message, field, copy);
    } else {
      SetField(root, message, field, random);
    }
  } else if (size > 1 && Below(2, random) == 0) {
    reflection.SwapElements(&message, field, static_cast<int>(random() % size), static_cast<int>(random() % size));
  } else {
    reflection.RemoveLast(&message, field);
  }
}

void MutateBelow(const Message& root, Message& message, std::mt19937& random, int depth) {
  const Reflection& reflection = *message.GetReflection();
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  if (type.field_count() == 0) return;
  std::vector<const FieldDescriptor*> set;
  reflection.ListFields(message, &set);
  // Mostly where something is already: a field drawn from all of them is mostly one that nothing else fits to.
  const FieldDescriptor* field = set.empty() || Below(4, random) == 0
                                     ? type.field(static_cast<int>(Below(type.field_count(), random)))
                                     : set[random() % set.size()];
  const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field->is_map();
  if (is_message && depth > 0 && Below(5, random) != 0) {
    if (!field->is_repeated()) {
      return MutateBelow(root, *reflection.MutableMessage(&message, field), random, depth - 1);
    }
    if (const int size = reflection.FieldSize(message, field); size > 0) {
      return MutateBelow(root, *reflection.MutableRepeatedMessage(&message, field, static_cast<int>(random() % size)),
                         random, depth - 1);
    }
  }
  if (field->is_map()) return;
  if (field->is_repeated()) return MutateRepeated(root, message, field, random);
  if (reflection.HasField(message, field) && Below(4, random) == 0) return reflection.ClearField(&message, field);
  SetField(root, message, field, random);
}

}  // namespace

void MutateMessage(Message& message, std::mt19937& random) { MutateBelow(message, message, random, /*depth=*/8); }

}  // namespace adjoin
