#include "worker/model/safetensors.h"
#include "base/testing/test_seed.h"

#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace adjoin {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;

std::string TestPath(const std::string& name) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  return absl::StrCat(testing::TempDir(), "/", test->name(), "_", name);
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::string FileOf(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

absl::Status OpenBytes(const std::string& bytes, const std::string& name = "") {
  const std::string path = TestPath("read.safetensors");
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return SafetensorsReader::Open(path, name).status();
}

absl::Status OpenHeader(const std::string& header, const std::string& data) { return OpenBytes(FileOf(header, data)); }

TEST(SafetensorsTest, WritesTheFormat) {
  const std::string path = TestPath("out");
  auto writer = SafetensorsWriter::Create(path, {{"b", DType::kInt32, {2}}, {"a.weight", DType::kUInt8, {1, 3}}});
  ASSERT_TRUE(writer.ok()) << writer.status();
  const int32_t b[] = {1, -1};
  ASSERT_TRUE((*writer)->Append(b, sizeof(b)).ok());
  ASSERT_TRUE((*writer)->Append("xy", 2).ok());
  EXPECT_EQ((*writer)->Finish().code(), absl::StatusCode::kInvalidArgument) << "a byte is missing";
  EXPECT_NE(access(path.c_str(), F_OK), 0) << "not before it is whole";
  EXPECT_EQ((*writer)->Append("zz", 2).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE((*writer)->Append("z", 1).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  std::string header = R"({"b":{"dtype":"I32","shape":[2],"data_offsets":[0,8]},)"
                       R"("a.weight":{"dtype":"U8","shape":[1,3],"data_offsets":[8,11]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  EXPECT_EQ(ReadFile(path), FileOf(header, std::string("\1\0\0\0\xff\xff\xff\xffxyz", 11)));
  EXPECT_NE(access((path + ".tmp").c_str(), F_OK), 0);
}

TEST(SafetensorsTest, AnUnfinishedWriterLeavesTheOldFile) {
  const std::string path = TestPath("out");
  std::ofstream(path) << "old";
  {
    auto writer = SafetensorsWriter::Create(path, {{"a", DType::kUInt8, {3}}});
    ASSERT_TRUE((*writer)->Append("new", 3).ok());
  }
  EXPECT_EQ(ReadFile(path), "old");
  EXPECT_NE(access((path + ".tmp").c_str(), F_OK), 0);
}

TEST(SafetensorsTest, RefusesBadNamesTypesAndPaths) {
  EXPECT_FALSE(SafetensorsWriter::Create(TestPath("a"), {{"a", DType::kInt32, {1}}, {"a", DType::kInt32, {1}}}).ok());
  EXPECT_FALSE(SafetensorsWriter::Create(TestPath("a"), {{"__metadata__", DType::kInt32, {1}}}).ok());
  EXPECT_FALSE(SafetensorsWriter::Create(TestPath("a"), {{"a", DType::kComplex64, {1}}}).ok());
  EXPECT_EQ(SafetensorsWriter::Create(TestPath("no/such/folder"), {}).status().code(), absl::StatusCode::kNotFound);
}

TEST(SafetensorsTest, ReadsBoxesOfWhatItWrote) {
  const uint64_t seed = TestSeed(11);
  std::mt19937 random(seed);
  for (int round = 0; round < 100; ++round) {
    std::vector<SafetensorsEntry> entries;
    std::vector<std::vector<double>> values;
    const int tensors = random() % 4;
    for (int i = 0; i < tensors; ++i) {
      std::vector<int64_t> shape;
      for (unsigned dims = random() % 4; dims > 0; --dims) shape.push_back(random() % 4);
      entries.push_back({absl::StrCat("layer", i, ".\"weight\" \xc3\xa4"), DType::kFloat64, shape});
      values.emplace_back(VolumeOf(shape));
      for (double& value : values.back()) value = random();
    }
    const std::string path = TestPath("file");
    auto writer = SafetensorsWriter::Create(path, entries);
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (const auto& value : values) ASSERT_TRUE((*writer)->Append(value.data(), value.size() * sizeof(double)).ok());
    ASSERT_TRUE((*writer)->Finish().ok());
    auto reader = SafetensorsReader::Open(path);
    ASSERT_TRUE(reader.ok()) << reader.status() << " seed " << seed << " round " << round;
    ASSERT_EQ((*reader)->entries().size(), entries.size());
    for (int i = 0; i < tensors; ++i) {
      const SafetensorsEntry* entry = (*reader)->Find(entries[i].name);
      ASSERT_NE(entry, nullptr);
      ASSERT_EQ(entry->shape, entries[i].shape);
      Box box = Box::Whole(entry->shape);
      for (int dim = 0; dim < box.dims(); ++dim) {
        box[dim].lo = random() % (entry->shape[dim] + 1);
        box[dim].hi = box[dim].lo + random() % (entry->shape[dim] - box[dim].lo + 1);
      }
      std::vector<double> expected;
      for (size_t at = 0; at < values[i].size(); ++at) {
        int64_t rest = at;
        bool inside = true;
        for (int d = box.dims() - 1; d >= 0; --d) {
          inside &= box[d].Contains(rest % entry->shape[d]);
          rest /= entry->shape[d];
        }
        if (inside) expected.push_back(values[i][at]);
      }
      std::vector<double> found(box.Volume());
      ASSERT_TRUE((*reader)->ReadBox(*entry, box, found.data()).ok());
      ASSERT_EQ(found, expected) << "seed " << seed << " round " << round;
    }
    EXPECT_EQ((*reader)->Find("nothing"), nullptr);
  }
}

TEST(SafetensorsTest, AcceptsMetadataAndAnyOrder) {
  EXPECT_TRUE(OpenHeader(R"({"__metadata__":{"format":"pt"},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]},)"
                         R"("a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})",
                         "xyz")
                  .ok());
  EXPECT_TRUE(OpenHeader("{}", "").ok());
}

TEST(SafetensorsTest, RefusesBadHeaders) {
  const struct {
    const char* header;
    const char* data;
    const char* message;
  } cases[] = {
      {"[]", "", "not a JSON object"},
      {"{", "", "not a JSON object"},
      {R"({"a":1})", "", "is not an object"},
      {R"({"a":{"shape":[1],"data_offsets":[0,1]}})", "x", "no dtype"},
      {R"({"a":{"dtype":"F8","shape":[1],"data_offsets":[0,1]}})", "x", "dtype F8"},
      {R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", "x", "no shape"},
      {R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", "x", "not a list of sizes"},
      {R"({"a":{"dtype":"U8","shape":[1.5],"data_offsets":[0,1]}})", "x", "not a list of sizes"},
      {R"({"a":{"dtype":"U8","shape":[1]}})", "x", "no data_offsets"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,"1"]}})", "x", "not positions"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "xxxx", "take 8 bytes"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})", "x", "take 1 bytes"},
      {R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", "", "too large"},
      {R"({"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}})", "x", "take 9 bytes, the file has 1"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "xy", "take 1 bytes, the file has 2"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", "xy", "begins at 1, where 0"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
       "xyz", "begins at 1, where 2"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
       "x", "twice"},
  };
  for (const auto& bad : cases) {
    const absl::Status status = OpenHeader(bad.header, bad.data);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << bad.header << " " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(bad.message)) << bad.header;
    EXPECT_THAT(std::string(status.message()), HasSubstr("read.safetensors"));
  }
  EXPECT_THAT(std::string(OpenBytes("1234").message()), HasSubstr("4 bytes"));
  EXPECT_THAT(std::string(OpenBytes("\xff\xff\xff\xff\xff\xff\xff\xff{}").message()), HasSubstr("the file has 10"));
  EXPECT_EQ(SafetensorsReader::Open(TestPath("none")).status().code(), absl::StatusCode::kNotFound);
}

TEST(SafetensorsTest, OtherFilesOfWeightsAreNamedWithTheWayToConvertThem) {
  const auto error = [](const std::string& bytes) { return std::string(OpenBytes(bytes).message()); };
  EXPECT_THAT(error("PK\x03\x04 and so on, as a zip archive"),
              AllOf(HasSubstr("read.safetensors: not a safetensors file but a zip archive, as torch.save writes, which "
                              "can hold any program and is not read; this converts it: python3 -c 'import torch, "
                              "safetensors.torch as s; s.save_file(torch.load(\""),
                    HasSubstr("torch.load(\"MODEL.pt\", map_location=\"cpu\", weights_only=True), "),
                    EndsWith(", \"MODEL.safetensors\")'")));
  const auto line = [](const std::string& name) { return std::string(OpenBytes("PK\x03\x04 a zip", name).message()); };
  EXPECT_THAT(line("nets/unet.v2.pt"), AllOf(HasSubstr("(\"unet.v2.pt\", "), EndsWith("\"unet.v2.safetensors\")'")));
  EXPECT_THAT(line("a.safetensors"), AllOf(HasSubstr("(\"a.safetensors\""), EndsWith("\"converted-a.safetensors\")'")));
  EXPECT_THAT(line("it's.pt"), HasSubstr("(\"MODEL.pt\"")) << "its quote would end the line's";
  EXPECT_THAT(error("\x80\x02}q and so on"), HasSubstr("a pickle, as torch.save wrote before 1.6"));
  EXPECT_THAT(error("\x89HDF\r\n\x1a\n and so on"), HasSubstr("an HDF5 file"));
  EXPECT_THAT(error("\x93NUMPY and so on"), HasSubstr("a NumPy file"));
  EXPECT_THAT(error("\x1f\x8b and so on, in gzip"), HasSubstr("compressed with gzip"));
}

TEST(SafetensorsTest, ReadsRandomBytesWithoutCrashing) {
  const std::string good = FileOf(R"({"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
                                  R"("b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}})",
                                  "12345678abc");
  ASSERT_TRUE(OpenBytes(good).ok());
  const uint64_t seed = TestSeed(23);
  std::mt19937 random(seed);
  const std::string alphabet = "{}[]\",:0123456789-eE.aFU\\ ";
  for (int round = 0; round < 4000; ++round) {
    std::string bytes = good;
    for (unsigned change = random() % 4; change > 0; --change) {
      bytes[random() % bytes.size()] = random() % 4 == 0 ? char(random()) : alphabet[random() % alphabet.size()];
    }
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    const absl::Status status = OpenBytes(bytes);
    if (!status.ok()) {
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << "seed " << seed << " round " << round << status;
    }
  }
  EXPECT_FALSE(OpenHeader(std::string(1 << 20, '['), "").ok());
  EXPECT_FALSE(OpenHeader("{\"a\":" + std::string(1 << 20, '['), "").ok());
}

}  // namespace
}  // namespace adjoin
