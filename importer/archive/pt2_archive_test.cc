// Archives that are damaged or lie, made from good ones and by hand.
#include "importer/archive/pt2_archive.h"

#include <cstring>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/testing/test_seed.h"
#include "importer/archive/testing/zip_bytes.h"

namespace adjoin {
namespace {

using testing::HasSubstr;

using Entries = ZipEntries;

template <typename T>
void Put(T number, std::string& out) {
  out.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

std::string Fixture(const std::string& name) {
  std::ifstream file("importer/testdata/" + name, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

absl::StatusOr<std::unique_ptr<Pt2Archive>> OpenBytes(const std::string& bytes) {
  const std::string path = testing::TempDir() + "/archive.pt2";
  std::ofstream(path, std::ios::binary) << bytes;
  return Pt2Archive::Open(path);
}

std::string ErrorOf(const std::string& bytes) { return std::string(OpenBytes(bytes).status().message()); }

// As newer releases of PyTorch arrange it, with an index and one weight of so many bytes.
Entries NewForm(const std::string& index, size_t bytes = 24) {
  return {{"m/archive_format", "pt2"},
          {"m/byteorder", "little"},
          {"m/models/model.json", "{}"},
          {"m/data/weights/model_weights_config.json", index},
          {"m/data/weights/weight_0", std::string(bytes, '\1')}};
}

constexpr char kIndex[] =
    R"({"config": {"w": {"path_name": "weight_0", "use_pickle": false, "tensor_meta": {"dtype": 7, )"
    R"("sizes": [{"as_int": 2}, {"as_int": 3}], "strides": [{"as_int": 3}, {"as_int": 1}], )"
    R"("storage_offset": {"as_int": 0}}}}})";

std::string Changed(const std::string& from, const std::string& to) {
  return absl::StrReplaceAll(kIndex, {{from, to}});
}

TEST(Pt2ArchiveTest, OpensWhatIsWhole) {
  const auto archive = OpenBytes(ZipBytes(NewForm(kIndex)));
  ASSERT_TRUE(archive.ok()) << archive.status();
  EXPECT_THAT((*archive)->Find("w")->shape, testing::ElementsAre(2, 3));
}

TEST(Pt2ArchiveTest, ReadsElementsInRowMajorOrder) {
  Entries entries = NewForm(Changed(R"([{"as_int": 3}, {"as_int": 1}])", R"([{"as_int": 1}, {"as_int": 2}])"));
  std::string cells;
  for (float value : {0.f, 1.f, 2.f, 3.f, 4.f, 5.f}) Put(value, cells);
  entries.back().second = cells;
  const auto archive = OpenBytes(ZipBytes(entries));
  ASSERT_TRUE(archive.ok()) << archive.status();
  std::vector<float> read;
  const auto take = [&](const char* data, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += 4) {
      float value;
      memcpy(&value, data + i, sizeof(value));
      read.push_back(value);
    }
    return absl::OkStatus();
  };
  ASSERT_TRUE((*archive)->Read(*(*archive)->Find("w"), take).ok());
  EXPECT_THAT(read, testing::ElementsAre(0, 2, 4, 1, 3, 5));
}

TEST(Pt2ArchiveTest, RefusesWeightsThatLieAboutTheirSize) {
  EXPECT_THAT(ErrorOf(ZipBytes(NewForm(kIndex, 23))), HasSubstr("tensor w claims elements outside of its 23 bytes"));
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {R"({"as_int": 2})", R"({"as_int": 9223372036854775807})"},
           {R"({"as_int": 2})", R"({"as_int": -2})"},
           {R"("strides": [{"as_int": 3})", R"("strides": [{"as_int": 9223372036854775807})"},
           {R"("strides": [{"as_int": 3})", R"("strides": [{"as_int": -3})"},
           {R"("storage_offset": {"as_int": 0})", R"("storage_offset": {"as_int": 1})"},
           {R"("storage_offset": {"as_int": 0})", R"("storage_offset": {"as_int": -1})"}}) {
    EXPECT_THAT(ErrorOf(ZipBytes(NewForm(Changed(from, to)))),
                HasSubstr("tensor w claims elements outside of its 24 bytes"))
        << to;
  }
  // A stride of 0 repeats elements without end.
  EXPECT_THAT(ErrorOf(ZipBytes(
                  NewForm(absl::StrReplaceAll(Changed(R"({"as_int": 2})", R"({"as_int": 1000000})"),
                                              {{R"("strides": [{"as_int": 3})", R"("strides": [{"as_int": 0})"}})))),
              HasSubstr("claims elements outside"));
  EXPECT_THAT(ErrorOf(ZipBytes(NewForm(Changed(R"({"as_int": 2})", R"({"as_int": 18446744073709551615})")))),
              HasSubstr("w has no sizes and strides of whole numbers"));
  EXPECT_THAT(ErrorOf(ZipBytes(NewForm(Changed("weight_0", "weight_1")))), HasSubstr("entry weight_1 is missing"));
  EXPECT_THAT(ErrorOf(ZipBytes(NewForm(Changed("\"use_pickle\": false", "\"use_pickle\": true")))),
              HasSubstr("is pickled"));
}

TEST(Pt2ArchiveTest, RefusesZipsThatLie) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("not a zip archive, or cut off"));
  EXPECT_THAT(ErrorOf(ZipBytes(NewForm(kIndex), /*method=*/8)), HasSubstr("m/archive_format is compressed"));
  EXPECT_THAT(ErrorOf(ZipBytes(NewForm(kIndex), 0, /*claimed=*/1 << 30)), HasSubstr("claims 1073741824 bytes"));
  EXPECT_THAT(ErrorOf(ZipBytes(NewForm(kIndex), 0, /*claimed=*/100)), HasSubstr("overlaps another entry"));
  Entries twice = NewForm(kIndex);
  twice.push_back(twice[0]);
  EXPECT_THAT(ErrorOf(ZipBytes(twice)), HasSubstr("is there twice"));
  std::string damaged = ZipBytes(NewForm(kIndex));
  damaged[damaged.find("\"config\"") + 2] = 'k';
  EXPECT_THAT(ErrorOf(damaged), HasSubstr("wrong checksum"));
}

TEST(Pt2ArchiveTest, RefusesWeightsOfAWrongChecksum) {
  const auto no_error = [](const char*, int64_t) { return absl::OkStatus(); };
  std::string damaged = ZipBytes(NewForm(kIndex));
  const size_t at = damaged.find(std::string(24, '\1'));
  damaged[at + 20] = '\2';
  const auto archive = OpenBytes(damaged);
  ASSERT_TRUE(archive.ok()) << archive.status();
  const absl::Status status = (*archive)->Read(*(*archive)->Find("w"), no_error);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("weights at byte ", at, " have a wrong checksum")));
  // A checksum of 0 is none.
  const std::string crc(reinterpret_cast<const char*>(&(*archive)->Find("w")->crc), 4);
  const size_t directory = damaged.rfind(crc);
  ASSERT_NE(directory, std::string::npos);
  damaged.replace(directory, 4, 4, '\0');
  const auto unchecked = OpenBytes(damaged);
  ASSERT_TRUE(unchecked.ok()) << unchecked.status();
  EXPECT_TRUE((*unchecked)->Read(*(*unchecked)->Find("w"), no_error).ok());
}

TEST(Pt2ArchiveTest, RefusesDeepJson) {
  Entries entries = NewForm(kIndex);
  entries[2].second = R"({"a": )" + std::string(1000000, '[') + std::string(1000000, ']') + "}";
  EXPECT_THAT(ErrorOf(ZipBytes(entries)), HasSubstr("m/models/model.json is nested more than 64 deep"));
  entries[2].second = R"({"text": ")" + std::string(1000, '[') + R"(\"[", "b": []})";
  EXPECT_TRUE(OpenBytes(ZipBytes(entries)).ok());
}

TEST(Pt2ArchiveTest, ReadsNumbersThatJsonHasNoWordFor) {
  Entries entries = NewForm(kIndex);
  entries[2].second = R"({"a": [-Infinity,Infinity, NaN, -1.5], "text": "is NaN \"-Infinity\\"})";
  const auto archive = OpenBytes(ZipBytes(entries));
  ASSERT_TRUE(archive.ok()) << archive.status();
  EXPECT_EQ((*archive)->program().dump(), R"({"a":["-Infinity","Infinity","NaN",-1.5],"text":"is NaN \"-Infinity\\"})");
  for (const char* bad : {R"({"a": Infinite})", R"({"a": --Infinity})", R"({"a": NaNaN})", R"({NaN)", R"({"a": "\)"}) {
    entries[2].second = bad;
    EXPECT_THAT(ErrorOf(ZipBytes(entries)), HasSubstr("is not a JSON object")) << bad;
  }
}

TEST(Pt2ArchiveTest, TellsOtherFilesApart) {
  EXPECT_THAT(ErrorOf(ZipBytes({{"model/data.pkl", "x"}})), HasSubstr("a file of torch.save or torch.jit.save"));
  EXPECT_THAT(ErrorOf(ZipBytes({{"readme", "x"}})), HasSubstr("not an archive of torch.export.save"));
}

TEST(Pt2ArchiveTest, EveryCutOfAFileIsAnError) {
  const std::string whole = Fixture("lenet.pt2");
  ASSERT_GT(whole.size(), 1000u);
  for (size_t size = 0; size < whole.size(); size += 997) EXPECT_FALSE(OpenBytes(whole.substr(0, size)).ok()) << size;
}

TEST(Pt2ArchiveTest, AnyChangedByteIsAnErrorOrHarmless) {
  const uint64_t seed = TestSeed();
  std::mt19937_64 random(seed);
  const std::string whole = Fixture("lenet.pt2");
  for (int i = 0; i < 300; ++i) {
    std::string changed = whole;
    for (uint64_t n = random() % 4 + 1; n > 0; --n) {
      // Half of them in the directory, which is at the end.
      const size_t at = random() % 2 == 0 ? whole.size() - 1 - random() % 600 : random() % whole.size();
      changed[at] = static_cast<char>(random());
    }
    const auto archive = OpenBytes(changed);
    if (!archive.ok()) continue;
    for (const auto& [name, tensor] : (*archive)->tensors()) {
      const absl::Status status = (*archive)->Read(tensor, [](const char*, int64_t) { return absl::OkStatus(); });
      EXPECT_TRUE(status.ok() || absl::IsDataLoss(status)) << name << ": " << status;
    }
  }
}

std::string PickleError(const std::string& pickle) {
  return std::string(ReadTensorPickle(pickle, "f").status().message());
}

TEST(TensorPickleTest, ReadsParametersWithAttributes) {
  constexpr char kPickle[] =
      "\x80\x02}X\x01\0\0\0wctorch._utils\n_rebuild_parameter_with_state\n(ctorch._utils\n_rebuild_tensor_v2\n("
      "(X\x07\0\0\0storagectorch\nDoubleStorage\nX\x01\0\0\0"
      "0X\x03\0\0\0cpuK\x06tQK\x00K\x02K\x03\x86K\x03K\x01\x86\x89}tR"
      "\x88}}X\x04\0\0\0typeX\x09\0\0\0unguardedstRs.";
  const auto tensors = ReadTensorPickle(absl::string_view(kPickle, sizeof(kPickle) - 1), "f");
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_EQ(tensors->size(), 1);
  EXPECT_EQ((*tensors)[0].name, "w");
  EXPECT_EQ((*tensors)[0].dtype, DType::kFloat64);
  EXPECT_THAT((*tensors)[0].shape, testing::ElementsAre(2, 3));
}

TEST(TensorPickleTest, ExecutesNothing) {
  EXPECT_THAT(PickleError("\x80\x02"
                          "cos\nsystem\n(X\x02\x00\x00\x00idtR."),
              HasSubstr("it names the function os system"));
  EXPECT_THAT(PickleError("\x80\x02"
                          "cbuiltins\neval\n."),
              HasSubstr("it names the function builtins eval"));
  EXPECT_THAT(PickleError("\x80\x02]."), HasSubstr("it has the instruction 0x5d"));
  EXPECT_THAT(PickleError("\x80\x02}q"), HasSubstr("cut off"));
  EXPECT_THAT(PickleError("\x80\x02)."), HasSubstr("it is no dict"));
  EXPECT_THAT(PickleError("\x80\x02}h\x07."), HasSubstr("recalls what was not there"));
  EXPECT_THAT(PickleError("\x80\x02R"), HasSubstr("a value is missing"));
  EXPECT_THAT(PickleError("\x80\x02}K\x01K\x02s."), HasSubstr("a key of its dict is no name"));
  EXPECT_TRUE(ReadTensorPickle("\x80\x02}.", "f").ok());
}

}  // namespace
}  // namespace adjoin
