// Random changes of a protobuf message through its reflection: fields set, cleared, repeated, swapped, in any depth.
//
//   std::mt19937 random(seed);
//   MutateMessage(spec, random);
#ifndef ADJOIN_TESTS_FUZZ_MESSAGE_MUTATOR_H_
#define ADJOIN_TESTS_FUZZ_MESSAGE_MUTATOR_H_

#include <google/protobuf/message.h>

#include <random>

namespace adjoin {

// One change. `message` stays a message that can be written and read again: its strings stay UTF-8.
void MutateMessage(google::protobuf::Message& message, std::mt19937& random);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_FUZZ_MESSAGE_MUTATOR_H_
