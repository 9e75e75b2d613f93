// Decisions from a fuzzer's bytes, zeros where they end: any input means something, and a small change of it means a
// small change of what is done.
//
//   ByteReader bytes(data, size);
//   while (!bytes.empty()) { switch (bytes.Below(4)) { case 0: service.Tick(); break; ... } }
#ifndef ADJOIN_TESTS_FUZZ_BYTE_READER_H_
#define ADJOIN_TESTS_FUZZ_BYTE_READER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

namespace adjoin {

class ByteReader {
 public:
  ByteReader(const uint8_t* data, size_t size) : data_(data), end_(data + size) {}

  bool empty() const { return data_ == end_; }
  uint8_t Byte() { return empty() ? 0 : *data_++; }
  bool Flag() { return (Byte() & 1) != 0; }
  // 0 .. count - 1; count at most 256.
  uint32_t Below(uint32_t count) { return Byte() % count; }
  // Mostly small, sometimes one of the numbers that arithmetic trips over.
  uint64_t Number() {
    const uint8_t byte = Byte();
    if (byte < 240) return byte % 16;
    static constexpr uint64_t kEdges[] = {std::numeric_limits<uint64_t>::max(),
                                          uint64_t{1} << 63,
                                          (uint64_t{1} << 63) - 1,
                                          uint64_t{1} << 32,
                                          (uint64_t{1} << 32) - 1,
                                          uint64_t{1} << 31,
                                          (uint64_t{1} << 31) - 1,
                                          4096};
    return kEdges[byte % 8];
  }
  std::string Text(size_t max_size) {
    const size_t size = std::min<size_t>({max_size, Byte(), static_cast<size_t>(end_ - data_)});
    std::string text(reinterpret_cast<const char*>(data_), size);
    data_ += size;
    return text;
  }
  std::string Rest() {
    std::string text(reinterpret_cast<const char*>(data_), static_cast<size_t>(end_ - data_));
    data_ = end_;
    return text;
  }

 private:
  const uint8_t* data_;
  const uint8_t* const end_;
};

}  // namespace adjoin

#endif  // ADJOIN_TESTS_FUZZ_BYTE_READER_H_
