// Messages as large and as ill-encoded as a sender can make them, of any type.
//
//   WorkerMessage message;
//   FillLargest(&message, WorkerMessage::descriptor()->FindFieldByName("rank_ended"));
//
// A field that a message gets later is filled, too, since the fields are found by reflection.
#ifndef ADJOIN_PROTO_TESTING_LARGEST_MESSAGE_H_
#define ADJOIN_PROTO_TESTING_LARGEST_MESSAGE_H_

#include <cstddef>
#include <string>
#include <vector>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

namespace adjoin {

struct LargestSizes {
  size_t text = 200000;       // bytes of a single text: control characters and bytes that are no UTF-8
  size_t bytes = 200000;      // of a single `bytes` field
  int texts = 20000;          // in a list of texts, each of
  size_t text_of_list = 100;  // bytes
  int entries = 2000;         // of a map
  int messages = 8;           // in a list of messages
};

// Sets every field below `field` (of `message`'s own type), with it all others of its oneof being cleared. Recursion
// ends where a type holds itself.
void FillLargest(google::protobuf::Message* message, const google::protobuf::FieldDescriptor* field,
                 const LargestSizes& sizes = {});

// The fields of the oneof `name` of a message.
std::vector<const google::protobuf::FieldDescriptor*> KindsOf(const google::protobuf::Descriptor* type,
                                                              const char* name = "kind");

// The path of the first text in `message` that is not printable; empty: there is none.
std::string UnprintableField(const google::protobuf::Message& message);

}  // namespace adjoin

#endif  // ADJOIN_PROTO_TESTING_LARGEST_MESSAGE_H_
