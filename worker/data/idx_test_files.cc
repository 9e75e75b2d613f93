#include "worker/data/idx_test_files.h"

#include <cstring>
#include <fstream>
#include <iterator>

#include <zlib.h>

#include <gtest/gtest.h>

namespace adjoin {
namespace {

template <typename Bits, typename Number>
void Append(Number number, std::string& out) {
  Bits bits;
  std::memcpy(&bits, &number, sizeof(bits));
  for (int byte = sizeof(Bits) - 1; byte >= 0; --byte) out.push_back(static_cast<char>(bits >> (8 * byte)));
}

}  // namespace

std::string IdxHeaderBytes(int type, const std::vector<int64_t>& shape) {
  std::string out = {0, 0, static_cast<char>(type), static_cast<char>(shape.size())};
  for (int64_t extent : shape) Append<uint32_t>(static_cast<uint32_t>(extent), out);
  return out;
}

std::string IdxBytes(IdxType type, const std::vector<int64_t>& shape, const std::vector<double>& cells) {
  std::string out = IdxHeaderBytes(static_cast<int>(type), shape);
  for (double cell : cells) {
    switch (type) {
      case IdxType::kUInt8: Append<uint8_t>(static_cast<uint8_t>(cell), out); break;
      case IdxType::kInt8: Append<uint8_t>(static_cast<int8_t>(cell), out); break;
      case IdxType::kInt16: Append<uint16_t>(static_cast<int16_t>(cell), out); break;
      case IdxType::kInt32: Append<uint32_t>(static_cast<int32_t>(cell), out); break;
      case IdxType::kFloat32: Append<uint32_t>(static_cast<float>(cell), out); break;
      case IdxType::kFloat64: Append<uint64_t>(cell, out); break;
    }
  }
  return out;
}

std::string Gzip(const std::string& bytes) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, bytes.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::string TestPath(const std::string& name) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  std::string prefix = testing::TempDir() + "/" + (test != nullptr ? test->name() : "shared") + "_" + name;
  return prefix;
}

}  // namespace adjoin
