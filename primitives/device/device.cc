#include "primitives/device/device.h"

#include "absl/strings/str_cat.h"

namespace adjoin {

std::string ToString(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kHost: return "host memory";
    case MemoryKind::kPinnedHost: return "pinned host memory";
    case MemoryKind::kCuda: return "CUDA memory";
    case MemoryKind::kFakeDevice: return "memory of the fake device";
  }
  return absl::StrCat("memory of kind ", static_cast<int>(kind));
}

}  // namespace adjoin
