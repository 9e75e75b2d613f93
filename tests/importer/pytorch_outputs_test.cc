// The archives of importer/testdata, imported and run on one rank and on two: their outputs are those that PyTorch
// wrote beside them.
#include <filesystem>
#include <memory>
#include <string>

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "importer/archive/pt2_archive.h"
#include "importer/import_model.h"
#include "importer/job_text.h"
#include "planner/spec/spec_parser.h"
#include "proto/job.pb.h"
#include "tests/predict/job_run.h"

namespace adjoin {
namespace {

struct Case {
  const char* archive;
  const char* sample;     // the files of its input and output
  const char* partition;  // of the input, over two ranks
  double tolerance;       // relative to the largest output
};

const Case kCases[] = {
    {"lenet.pt2", "lenet", "[1, 1, 2, 1]", 1e-4},           {"lenet.new.pt2", "lenet", "[2, 1, 1, 1]", 1e-4},
    {"resnet.pt2", "resnet", "[1, 1, 1, 2]", 1e-10},        {"unet3d.pt2", "unet3d", "[1, 1, 2, 1, 1]", 1e-10},
    {"unet3d.new.pt2", "unet3d", "[1, 1, 1, 2, 1]", 1e-10}, {"mixed.pt2", "mixed", "[1, 1, 2, 1]", 1e-10},
    {"transformer.pt2", "transformer", "[1, 2]", 1e-10},
};

// The imported job, which reads the sample's input from a file.
absl::StatusOr<JobSpec> JobOf(const Case& test, int ranks, const JobFolder& folder) {
  ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<Pt2Archive> archive,
                          Pt2Archive::Open(absl::StrCat("importer/testdata/", test.archive)));
  ADJOIN_ASSIGN_OR_RETURN(const ImportedModel model, ImportModel(*archive, {}));
  ADJOIN_RETURN_IF_ERROR(WriteWeights(*archive, model, folder.Path("data/w.safetensors")));
  ADJOIN_ASSIGN_OR_RETURN(const std::string text,
                          JobText(model, {.name = "job", .weights = "w.safetensors", .archive = test.archive}));
  ADJOIN_ASSIGN_OR_RETURN(const ParsedSpec parsed, ParseSpec(text, "job"));
  JobSpec job = parsed.spec;
  job.mutable_dataset(0)->mutable_field(0)->mutable_npy()->add_path("input.npy");
  if (ranks == 1) return job;
  job.set_ranks(static_cast<uint32_t>(ranks));
  google::protobuf::TextFormat::ParseFromString(absl::StrCat("name: \"cut\" partition: ", test.partition),
                                                job.add_layout());
  job.mutable_layer(0)->add_x("cut");
  return job;
}

class PytorchOutputsTest : public testing::TestWithParam<int> {};

TEST_P(PytorchOutputsTest, AreComputedByTheImportedJob) {
  const Case& test = kCases[GetParam()];
  for (int ranks : {1, 2}) {
    const JobFolder folder(absl::StrCat(test.archive, ranks));
    std::filesystem::copy_file(absl::StrCat("importer/testdata/", test.sample, ".input.npy"),
                               folder.Path("data/input.npy"));
    std::filesystem::copy_file(absl::StrCat("importer/testdata/", test.sample, ".output.npy"),
                               folder.Path("data/output.npy"));
    const absl::StatusOr<JobSpec> job = JobOf(test, ranks, folder);
    ASSERT_TRUE(job.ok()) << job.status();
    const absl::StatusOr<at::Tensor> expected = folder.ReadArray("data/output.npy");
    ASSERT_TRUE(expected.ok()) << expected.status();
    std::string text;
    google::protobuf::TextFormat::PrintToString(*job, &text);
    const auto run = RunJob(text, {{"data", expected->size(0)}}, folder);
    ASSERT_TRUE(run.ok()) << run.status();
    const absl::StatusOr<at::Tensor> computed =
        folder.ReadArray(absl::StrCat("output/job/", job->predict().input(0), ".npy"));
    ASSERT_TRUE(computed.ok()) << computed.status();
    ASSERT_EQ(computed->sizes(), expected->sizes());
    const double difference = (*computed - *expected).abs().max().item<double>();
    EXPECT_LE(difference, test.tolerance * expected->abs().max().item<double>())
        << test.archive << ", ranks: " << ranks;
  }
}

INSTANTIATE_TEST_SUITE_P(Archives, PytorchOutputsTest, testing::Range(0, static_cast<int>(std::size(kCases))));

}  // namespace
}  // namespace adjoin
