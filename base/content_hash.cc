#include "base/content_hash.h"

#include <xxhash.h>

#include "absl/strings/str_cat.h"

namespace adjoin {

ContentHash::ContentHash() : state_(XXH3_createState()) { XXH3_128bits_reset(state_); }

ContentHash::~ContentHash() { XXH3_freeState(state_); }

void ContentHash::Add(const void* data, int64_t bytes) {
  if (bytes > 0) XXH3_128bits_update(state_, data, static_cast<size_t>(bytes));
}

std::string ContentHash::Hex() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_);
  return absl::StrCat(absl::Hex(hash.high64, absl::kZeroPad16), absl::Hex(hash.low64, absl::kZeroPad16));
}

std::string ContentHash::Of(const std::string& text) {
  ContentHash hash;
  hash.Add(text.data(), static_cast<int64_t>(text.size()));
  return hash.Hex();
}

}  // namespace adjoin
