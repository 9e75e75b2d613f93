#include "worker/tensorboard/event_record.h"

#include <array>

namespace adjoin {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // of Castagnoli, its bits reversed
constexpr uint32_t kMaskDelta = 0xa282ead8;

constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table = {};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = (rest & 1) != 0 ? rest >> 1 ^ kPolynomial : rest >> 1;
    table[byte] = rest;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kTable = MakeTable();

// A checksum of bytes that hold a checksum says little, so the format stores it changed.
uint32_t Masked(uint32_t crc) { return (crc >> 15 | crc << 17) + kMaskDelta; }

void AppendLittleEndian(uint64_t number, int bytes, std::string* out) {
  for (int i = 0; i < bytes; ++i) out->push_back(static_cast<char>(number >> (8 * i) & 0xff));
}

}  // namespace

uint32_t Crc32c(absl::string_view bytes) {
  uint32_t crc = 0xffffffff;
  for (const char byte : bytes) crc = crc >> 8 ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  return ~crc;
}

std::string EventRecord(absl::string_view content) {
  std::string record;
  AppendLittleEndian(content.size(), 8, &record);
  AppendLittleEndian(Masked(Crc32c(record)), 4, &record);
  record.append(content.data(), content.size());
  AppendLittleEndian(Masked(Crc32c(content)), 4, &record);
  return record;
}

}  // namespace adjoin
