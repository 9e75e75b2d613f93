#include "primitives/geometry/dtype.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

struct Entry {
  DType dtype;
  const char* name;
  int64_t bytes;
};

// In the order of the enumeration, so that a dtype is its own index.
constexpr Entry kEntries[] = {
    {DType::kFloat64, "float64", 8}, {DType::kFloat32, "float32", 4},     {DType::kBFloat16, "bfloat16", 2},
    {DType::kFloat16, "float16", 2}, {DType::kComplex64, "complex64", 8}, {DType::kComplex128, "complex128", 16},
    {DType::kInt64, "int64", 8},     {DType::kInt32, "int32", 4},         {DType::kUInt8, "uint8", 1},
    {DType::kBool, "bool", 1},
};

const Entry& EntryOf(DType dtype) { return kEntries[static_cast<int>(dtype)]; }

}  // namespace

int64_t SizeOf(DType dtype) { return EntryOf(dtype).bytes; }

std::string ToString(DType dtype) { return EntryOf(dtype).name; }

absl::StatusOr<DType> ParseDType(absl::string_view name) {
  std::string known;
  for (const Entry& entry : kEntries) {
    if (name == entry.name) return entry.dtype;
    absl::StrAppend(&known, known.empty() ? "" : ", ", entry.name);
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown dtype \"", name, "\"; known are ", known));
}

bool IsFloatingPoint(DType dtype) { return dtype <= DType::kComplex128; }

}  // namespace adjoin
