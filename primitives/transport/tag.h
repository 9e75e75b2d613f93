// The 64 typed bits that match a message with its receive. There are no wildcards.
//
//   Tag tag = *Tag::Make({.communicator = 0, .op = 7, .generation = 3, .direction = Direction::kForward,
//                         .source = 2, .slot = 0});
//
// From the most significant bit: communicator 6 bits, operator 16, generation 10, direction 2, source 18, slot 12.
// Generations wrap; equal tags from one source match in the order sent and the executions of an operator in flight are
// bounded, so wrapping is harmless: Make takes the generation modulo 1024.
#ifndef ADJOIN_PRIMITIVES_TRANSPORT_TAG_H_
#define ADJOIN_PRIMITIVES_TRANSPORT_TAG_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace adjoin {

enum class Direction { kForward = 0, kAdjoint = 1, kFingerprint = 2, kControl = 3 };

class Tag {
 public:
  struct Fields {
    int64_t communicator = 0;  // [0, 64)
    int64_t op = 0;            // [0, 65536)
    int64_t generation = 0;    // any non-negative number; kept modulo 1024
    Direction direction = Direction::kForward;
    int64_t source = 0;  // the sender's rank, [0, 262144)
    int64_t slot = 0;    // [0, 4096): which message of one execution between one pair of ranks
  };

  // Errors: kInvalidArgument names the field that is out of its range.
  static absl::StatusOr<Tag> Make(const Fields& fields);
  static Tag FromBits(uint64_t bits) { return Tag(bits); }

  uint64_t bits() const { return bits_; }
  Fields fields() const;
  std::string ToString() const;  // "operator 7 forward, generation 3, from rank 2, slot 0"

  friend bool operator==(Tag a, Tag b) { return a.bits_ == b.bits_; }
  friend bool operator!=(Tag a, Tag b) { return a.bits_ != b.bits_; }

 private:
  explicit Tag(uint64_t bits) : bits_(bits) {}
  uint64_t bits_;
};

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TRANSPORT_TAG_H_
