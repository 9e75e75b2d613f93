// The checksum of a file's content: XXH3 with 128 bits, fed in pieces.
//
//   ContentHash hash;
//   hash.Add(data, bytes);
//   hash.Hex();              // 32 hexadecimal digits
#ifndef ADJOIN_BASE_CONTENT_HASH_H_
#define ADJOIN_BASE_CONTENT_HASH_H_

#include <cstdint>
#include <string>

struct XXH3_state_s;

namespace adjoin {

class ContentHash {
 public:
  ContentHash();
  ~ContentHash();
  ContentHash(const ContentHash&) = delete;
  ContentHash& operator=(const ContentHash&) = delete;

  void Add(const void* data, int64_t bytes);
  std::string Hex() const;  // the checksum of what was added so far

  static std::string Of(const std::string& text);

 private:
  XXH3_state_s* state_;
};

}  // namespace adjoin

#endif  // ADJOIN_BASE_CONTENT_HASH_H_
