#include "worker/daemon/probe.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <zlib.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "absl/time/time.h"
#include "base/deadline.h"
#include "worker/data/idx_test_files.h"
#include "worker/samples/array_test_files.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ProbeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = std::string(getenv("TEST_TMPDIR")) + "/" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(root_);
    Dataset& train = *request_.add_dataset();
    train.set_name("train");
    AddField("image", "images");
    AddField("label", "labels.gz");
    Write("images", Idx({10, 2, 3}));
    WriteGzip("labels.gz", Idx({10}));
  }

  void AddField(const std::string& name, const std::string& path) {
    Field& field = *request_.mutable_dataset(0)->add_field();
    field.set_name(name);
    field.mutable_idx()->add_path(path);
  }
  static std::string Idx(const std::vector<int>& shape) {
    std::string bytes = {0, 0, 8, static_cast<char>(shape.size())};
    size_t cells = 1;
    for (int extent : shape) {
      bytes += {0, 0, 0, static_cast<char>(extent)};
      cells *= extent;
    }
    return bytes + std::string(cells, 'x');
  }
  void Write(const std::string& name, const std::string& bytes) {
    std::ofstream(root_ + "/" + name, std::ios::binary) << bytes;
  }
  void WriteGzip(const std::string& name, const std::string& bytes) {
    gzFile file = gzopen((root_ + "/" + name).c_str(), "wb");
    gzwrite(file, bytes.data(), bytes.size());
    gzclose(file);
  }
  std::string Error() { return Probe(root_, request_).error(); }

  std::string root_;
  ProbeData request_;
};

TEST_F(ProbeTest, CountsSamples) {
  request_.set_request_id("7");
  ProbeResult result = Probe(root_, request_);
  EXPECT_EQ(result.error(), "");
  EXPECT_EQ(result.field(), "");
  EXPECT_EQ(result.request_id(), "7");
  ASSERT_EQ(result.dataset_size(), 1);
  EXPECT_EQ(result.dataset(0).name(), "train");
  EXPECT_EQ(result.dataset(0).samples(), 10);
}

TEST_F(ProbeTest, NamesTheFileThatIsMissing) {
  std::filesystem::remove(root_ + "/images");
  EXPECT_EQ(Error(), "data set 'train', field 'image': 'images': no such file below the worker's data root");
  EXPECT_EQ(Probe(root_, request_).field(), "dataset[0].field[0].idx.path[0]");
}

TEST_F(ProbeTest, TruncatedAndCorruptFiles) {
  Write("images", Idx({10, 2, 3}).substr(0, 40));
  EXPECT_THAT(Error(), AllOf(HasSubstr("images"), Not(HasSubstr(root_))));
  Write("images", Idx({10, 2, 3}));
  std::filesystem::resize_file(root_ + "/labels.gz", std::filesystem::file_size(root_ + "/labels.gz") - 4);
  EXPECT_THAT(Error(), HasSubstr("field 'label'"));
  EXPECT_EQ(Probe(root_, request_).field(), "dataset[0].field[1].idx.path[0]");
}

TEST_F(ProbeTest, ReadsOnlyHeadersBeyondTheLimitOfBytes) {
  // The labels are 18 bytes, however few of gzip they are; the images are not inflated.
  std::filesystem::resize_file(root_ + "/labels.gz", std::filesystem::file_size(root_ + "/labels.gz") - 4);
  ProbeLimits limits;
  limits.bytes = 18;
  EXPECT_THAT(Probe(root_, request_, limits).error(), HasSubstr("field 'label'"));
  limits.bytes = 17;
  EXPECT_EQ(Probe(root_, request_, limits).error(), "");
  Write("images", Idx({10, 2, 3}).substr(0, 40));
  EXPECT_THAT(Probe(root_, request_, limits).error(), HasSubstr("images"));
}

TEST_F(ProbeTest, ReadsOnlyHeadersAfterTheDeadline) {
  std::filesystem::resize_file(root_ + "/labels.gz", std::filesystem::file_size(root_ + "/labels.gz") - 4);
  EXPECT_THAT(Probe(root_, request_, {}).error(), HasSubstr("field 'label'"));
  ProbeLimits limits;
  limits.deadline = Deadline::After(absl::ZeroDuration());
  const ProbeResult result = Probe(root_, request_, limits);
  EXPECT_EQ(result.error(), "");
  EXPECT_EQ(result.dataset(0).samples(), 10);
}

TEST_F(ProbeTest, StopsWhenItIsTold) {
  const std::atomic<bool> stop = true;
  ProbeLimits limits;
  limits.stop = &stop;
  EXPECT_THAT(Probe(root_, request_, limits).error(), HasSubstr("the worker stops"));
}

TEST_F(ProbeTest, RefusesFieldsWithDifferentNumbersOfSamples) {
  Write("images", Idx({9, 2, 3}));
  EXPECT_THAT(Error(), HasSubstr("field 'label' has 10 samples, field 'image' has 9"));
  EXPECT_EQ(Probe(root_, request_).field(), "dataset[0].field[1]");
}

TEST_F(ProbeTest, ShapesFit) {
  for (int extent : {1, 2, 3}) request_.mutable_dataset(0)->mutable_field(0)->add_shape(extent);
  EXPECT_EQ(Error(), "");
  request_.mutable_dataset(0)->mutable_field(0)->set_shape(2, 4);
  EXPECT_THAT(Error(), HasSubstr("the file (10x2x3 uint8) has 10 samples of [2, 3]; shape is [1, 2, 4]"));
}

// Volumes of several extents: the headers tell them, and every rank has to find the same.
TEST_F(ProbeTest, ExtentsThatDifferFromFileToFile) {
  Dataset& dataset = *request_.mutable_dataset(0);
  dataset.clear_field();
  for (int64_t extent : {4, 3, 2}) dataset.mutable_blocks()->add_size(extent);
  const auto write = [&](const std::string& name, const std::string& format, const std::vector<int64_t>& shape) {
    WriteArray(root_ + "/" + name, format, CellType::kInt16, shape, std::vector<double>(VolumeOf(shape)));
  };
  write("a.nii", "nifti", {4, 5, 6});
  write("b.nii", "nifti", {9, 3, 2});
  WriteFile(root_ + "/b.nii.gz", Gzip(ReadFile(root_ + "/b.nii")));
  write("a.npy", "npy", {1, 4, 5, 6});
  write("b.npy", "npy", {9, 3, 2});
  for (const std::string name : {"image", "label"}) {
    Field& field = *dataset.add_field();
    field.set_name(name);
    const std::vector<int64_t> shape = {1, -1, -1, -1};
    field.mutable_shape()->Assign(shape.begin() + (name == "image" ? 0 : 1), shape.end());
  }
  SetFile(*dataset.mutable_field(0), "nifti", "a.nii");
  SetFile(*dataset.mutable_field(0), "nifti", "b.nii.gz");
  for (const char* path : {"a.npy", "b.npy"}) SetFile(*dataset.mutable_field(1), "npy", path);
  const ProbeResult found = Probe(root_, request_);
  EXPECT_EQ(found.error(), "");
  EXPECT_EQ(found.dataset(0).samples(), 2);
  EXPECT_NE(found.dataset(0).extents(), 0u);

  // Other extents, or another order, make another number.
  write("b.nii", "nifti", {9, 3, 3});
  WriteFile(root_ + "/b.nii.gz", Gzip(ReadFile(root_ + "/b.nii")));
  EXPECT_EQ(
      Error(),
      "data set 'train', field 'label': 'b.npy': its extents are 9x3x2, those of 'b.nii.gz' of field \"image\", the"
      " same sample, 9x3x3; they have to be the same");
  EXPECT_EQ(Probe(root_, request_).field(), "dataset[0].field[1].npy.path[1]");
  write("b.npy", "npy", {9, 3, 3});
  const ProbeResult other = Probe(root_, request_);
  EXPECT_EQ(other.error(), "");
  EXPECT_NE(other.dataset(0).extents(), found.dataset(0).extents());

  write("b.npy", "npy", {9, 2, 3});
  request_.mutable_dataset(0)->mutable_field()->SwapElements(0, 1);
  EXPECT_EQ(Error(),
            "data set 'train', field 'label': 'b.npy': its extents are 9x2x3, smaller than a block of 4x3x2; make the"
            " blocks smaller, leave the file out, or pad it");
  EXPECT_EQ(Probe(root_, request_).field(), "dataset[0].field[0].npy.path[1]");
  write("b.npy", "npy", {3, 3});
  EXPECT_THAT(Error(), HasSubstr("'b.npy': the file has the extents [3, 3]; shape is [-1, -1, -1], where each file"));
}

// Whole volumes, for whose extents the job's network is planned.
TEST_F(ProbeTest, ExtentsThatTheNetworkDoesNotTake) {
  JobSpec& job = *request_.mutable_job();
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(R"(
name: "v" kind: PREDICT ranks: 2 seed: 1
layout { name: "grid" partition: [1, 1, 2, 1, 1] }
layer { name: "down" input: "image" x: "grid" conv { out_channels: 2 window { kernel: 3 pad_lo: 1 } } }
layer { name: "pool" pool { mode: "max" window { kernel: 2 } } }
layer { name: "up" upsample { mode: "nearest" scale: 2 } }
layer { name: "skip" input: ["down", "up"] concat { arg: 1 } }
dataset { name: "set" field { name: "image" npy { path: ["a.npy", "b.npy", "c.npy"] } shape: [1, -1, -1, -1] } }
predict { dataset: "set" input: "skip" format: "npy" }
weights { init_from: "w" } output_dir: "v")",
                                                            &job));
  const auto write = [&](const std::string& name, const std::vector<int64_t>& shape) {
    WriteArray(root_ + "/" + name, "npy", CellType::kInt16, shape, std::vector<double>(VolumeOf(shape)));
  };
  write("a.npy", {4, 6, 8});
  write("b.npy", {8, 4, 10});
  write("c.npy", {4, 6, 8});
  *request_.mutable_dataset() = job.dataset();
  EXPECT_EQ(Error(), "");
  write("b.npy", {8, 5, 10});
  EXPECT_THAT(Error(),
              AllOf(HasSubstr("data set 'set', field 'image': 'b.npy' has the extents 8x5x10, which the network"
                              " does not take: "),
                    HasSubstr("\"skip\"")));
  EXPECT_EQ(Probe(root_, request_).field(), "dataset[0].field[0].npy.path[1]");

  ProbeLimits limits;
  std::string at;
  limits.at = [&at](const std::string& now, const std::string& /*path*/) { at = now; };
  Probe(root_, request_, limits);
  EXPECT_EQ(at, "planning the job for the extents of 'b.npy' (data set 'set', field 'image')");
  limits.deadline = Deadline::After(absl::ZeroDuration());
  EXPECT_EQ(Probe(root_, request_, limits).error(), "") << "there is no time: the ranks check it";
  EXPECT_EQ(at, "'c.npy' (data set 'set', field 'image')") << "no plan was begun";

  for (Dataset* dataset : {request_.mutable_dataset(0), job.mutable_dataset(0)}) dataset->set_limit(1);
  EXPECT_EQ(Error(), "") << "the first file only";
  for (Dataset* dataset : {request_.mutable_dataset(0), job.mutable_dataset(0)}) dataset->clear_limit();
  job.mutable_layer(2)->mutable_custom()->set_type("sharpen");
  EXPECT_EQ(Error(), "") << "a layer of a user's own: the ranks know it";
  request_.clear_job();
  EXPECT_EQ(Error(), "") << "nothing takes whole samples";
}

TEST_F(ProbeTest, PathsStayBelowTheRoot) {
  request_.mutable_dataset(0)->mutable_field(0)->mutable_idx()->set_path(0, "../images");
  EXPECT_THAT(Error(), HasSubstr("'..'"));
}

TEST_F(ProbeTest, EveryFormat) {
  Dataset& dataset = *request_.add_dataset();
  dataset.set_name("volumes");
  for (const std::string& format : std::vector<std::string>{"npy", "hdf5", "nifti", "synthetic"}) {
    Field& field = *dataset.add_field();
    field.set_name(format);
    for (int extent : {1, 2, 3, 4}) field.add_shape(extent);
    if (format == "synthetic") {
      field.mutable_synthetic()->set_samples(2);
      continue;
    }
    const std::vector<int64_t> shape = format == "nifti" ? std::vector<int64_t>{2, 3, 4} : std::vector<int64_t>{2, 24};
    WriteArray(root_ + "/a." + format, format, CellType::kInt16, shape, std::vector<double>(VolumeOf(shape)));
    SetFile(field, format, "a." + format);
    if (format == "nifti") SetFile(field, format, "a." + format);
  }
  ProbeResult result = Probe(root_, request_);
  EXPECT_EQ(result.error(), "");
  ASSERT_EQ(result.dataset_size(), 2);
  EXPECT_EQ(result.dataset(1).samples(), 2);

  Field& hdf5 = *request_.mutable_dataset(1)->mutable_field(1);
  hdf5.mutable_hdf5()->set_object("other");
  result = Probe(root_, request_);
  EXPECT_THAT(result.error(),
              AllOf(HasSubstr("data set 'volumes', field 'hdf5': 'a.hdf5'"), HasSubstr("data"), Not(HasSubstr(root_))));
  EXPECT_EQ(result.field(), "dataset[1].field[1].hdf5.path[0]");
  hdf5.mutable_hdf5()->set_object("data");

  Field& nifti = *request_.mutable_dataset(1)->mutable_field(2);
  nifti.set_shape(1, 3);
  result = Probe(root_, request_);
  EXPECT_THAT(result.error(),
              HasSubstr("'a.nifti': the file (2x3x4 int16) is one sample of [2, 3, 4]; shape is [1, 3, 3, 4]"));
  EXPECT_EQ(result.field(), "dataset[1].field[2].nifti.path[0]");
  nifti.set_shape(1, 2);

  std::filesystem::resize_file(root_ + "/a.npy", std::filesystem::file_size(root_ + "/a.npy") - 1);
  result = Probe(root_, request_);
  EXPECT_THAT(result.error(), HasSubstr("field 'npy': 'a.npy'"));
  EXPECT_EQ(result.field(), "dataset[1].field[0].npy.path[0]");
}

}  // namespace
}  // namespace adjoin
