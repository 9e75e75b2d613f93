#include "primitives/transport/tag.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "primitives/transport/reserved_ids.h"

namespace adjoin {
namespace {

constexpr int kSlotBits = 12;
constexpr int kSourceBits = 18;
constexpr int kDirectionBits = 2;
constexpr int kGenerationBits = 10;
constexpr int kOpBits = 16;
constexpr int kCommunicatorBits = 6;

constexpr int kSourceShift = kSlotBits;
constexpr int kDirectionShift = kSourceShift + kSourceBits;
constexpr int kGenerationShift = kDirectionShift + kDirectionBits;
constexpr int kOpShift = kGenerationShift + kGenerationBits;
constexpr int kCommunicatorShift = kOpShift + kOpBits;
static_assert(kCommunicatorShift + kCommunicatorBits == 64, "the fields fill the tag");

constexpr int64_t Limit(int bits) { return int64_t{1} << bits; }

static_assert(kTransportCommunicator == Limit(kCommunicatorBits) - 1, "the transport keeps the last communicator");
static_assert(kTransportOperator < Limit(kOpBits) && kLargestOperator < Limit(kOpBits), "they fit into a tag");

absl::Status CheckRange(const char* name, int64_t value, int bits) {
  if (value >= 0 && value < Limit(bits)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("tag: ", name, " ", value, " is not in [0, ", Limit(bits), ")"));
}

uint64_t Pack(int64_t value, int shift) { return static_cast<uint64_t>(value) << shift; }

int64_t Unpack(uint64_t bits, int shift, int width) {
  return static_cast<int64_t>((bits >> shift) & static_cast<uint64_t>(Limit(width) - 1));
}

const char* Name(Direction direction) {
  switch (direction) {
    case Direction::kForward: return "forward";
    case Direction::kAdjoint: return "adjoint";
    case Direction::kFingerprint: return "fingerprint";
    case Direction::kControl: return "control";
  }
  return "?";
}

}  // namespace

absl::StatusOr<Tag> Tag::Make(const Fields& fields) {
  const int64_t direction = static_cast<int64_t>(fields.direction);
  for (const absl::Status& status :
       {CheckRange("communicator", fields.communicator, kCommunicatorBits), CheckRange("op", fields.op, kOpBits),
        CheckRange("direction", direction, kDirectionBits), CheckRange("source", fields.source, kSourceBits),
        CheckRange("slot", fields.slot, kSlotBits)}) {
    if (!status.ok()) return status;
  }
  if (fields.generation < 0) {
    return absl::InvalidArgumentError(absl::StrCat("tag: generation ", fields.generation, " is negative"));
  }
  return Tag(Pack(fields.communicator, kCommunicatorShift) | Pack(fields.op, kOpShift) |
             Pack(fields.generation % Limit(kGenerationBits), kGenerationShift) | Pack(direction, kDirectionShift) |
             Pack(fields.source, kSourceShift) | Pack(fields.slot, 0));
}

Tag::Fields Tag::fields() const {
  Fields fields;
  fields.communicator = Unpack(bits_, kCommunicatorShift, kCommunicatorBits);
  fields.op = Unpack(bits_, kOpShift, kOpBits);
  fields.generation = Unpack(bits_, kGenerationShift, kGenerationBits);
  fields.direction = static_cast<Direction>(Unpack(bits_, kDirectionShift, kDirectionBits));
  fields.source = Unpack(bits_, kSourceShift, kSourceBits);
  fields.slot = Unpack(bits_, 0, kSlotBits);
  return fields;
}

std::string Tag::ToString() const {
  const Fields f = fields();
  std::string text = f.communicator == 0 ? "" : absl::StrCat("communicator ", f.communicator, ", ");
  absl::StrAppend(&text, "operator ", f.op, " ", Name(f.direction), ", generation ", f.generation, ", from rank ",
                  f.source, ", slot ", f.slot);
  return text;
}

}  // namespace adjoin
