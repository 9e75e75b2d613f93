#include "worker/model/model_file.h"

#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>

#include "base/deadline.h"
#include "base/hopeless_failure.h"
#include "base/status_macros.h"
#include "layers/rules/layout_proto.h"
#include "primitives/comm/local_memory.h"
#include "primitives/transport/transport_ranks.h"
#include "worker/model/file_sums.h"
#include "worker/model/safetensors.h"

namespace adjoin {
namespace {

using testing::AllOf;
using testing::HasSubstr;

void AddParameter(Plan& plan, const std::string& name, const Layout& home) {
  ParameterPlan& parameter = *plan.add_parameter();
  parameter.set_name(name);
  *parameter.mutable_home() = ToProto(home);
  parameter.set_fan_in(4);
  OperatorPlan& collect = *parameter.mutable_collect();
  collect.set_id(static_cast<uint32_t>(plan.parameter_size()));
  collect.set_name("collect." + name);
  *collect.mutable_from() = ToProto(home);
  *collect.mutable_to() = ToProto(Layout::Owner(home.shape(), home.dtype(), 0));
}

// One parameter of each kind of home, on three ranks.
Plan ModelPlan() {
  Plan plan;
  AddParameter(plan, "split.weight", *Layout::Partition({5, 4}, DType::kFloat64, {3, 1}, {2, 0, 1}));
  AddParameter(plan, "owned.bias", Layout::Owner({7}, DType::kFloat64, 1));
  AddParameter(plan, "everywhere.weight", *Layout::Replicated({2, 3}, DType::kFloat64, {0, 1, 2}));
  AddParameter(plan, "finer", *Layout::Partition({2}, DType::kFloat64, {3}, {0, 1, 2}));
  return plan;
}

std::string Path(const std::string& name) { return testing::TempDir() + "/" + name; }

absl::Status CompareBlocks(const Parameters& a, const Parameters& b) {
  for (int i = 0; i < a.size(); ++i) {
    if (!at::equal(a.tensor(i), b.tensor(i))) return absl::InternalError("rank differs in " + a.name(i));
  }
  return absl::OkStatus();
}

TEST(ModelFileTest, EachRankReadsItsPartOfTheFileThatAllWrote) {
  const Plan plan = ModelPlan();
  const std::string path = Path("model.safetensors");
  const absl::Status status = RunRanks(3, TransportKind::kInMemoryDelayed, 9, [&](Transport& t) -> absl::Status {
    HostMemory memory;
    Communicator communicator(&t, &memory, {.timeout = absl::Seconds(20)});
    ADJOIN_ASSIGN_OR_RETURN(Parameters parameters, Parameters::Create(plan, t.rank()));
    parameters.Initialise(5);
    ADJOIN_RETURN_IF_ERROR(SaveModel(path, plan, &communicator, parameters));
    // Rank 0 finishes the file last; the others ask for it once it has answered.
    if (t.rank() != 0) return absl::OkStatus();
    for (int rank = 0; rank < 3; ++rank) {
      ADJOIN_ASSIGN_OR_RETURN(Parameters expected, Parameters::Create(plan, rank));
      expected.Initialise(5);
      ADJOIN_ASSIGN_OR_RETURN(Parameters loaded, Parameters::Create(plan, rank));
      ADJOIN_ASSIGN_OR_RETURN(const ModelDifferences differences, LoadModel(path, /*strict=*/true, &loaded));
      if (!differences.empty()) return absl::InternalError(differences.ToString());
      ADJOIN_RETURN_IF_ERROR(CompareBlocks(loaded, expected));
    }
    return absl::OkStatus();
  });
  ASSERT_TRUE(status.ok()) << status;
  auto reader = SafetensorsReader::Open(path);
  ASSERT_TRUE(reader.ok()) << reader.status();
  ASSERT_EQ((*reader)->entries().size(), 4u);
  EXPECT_EQ((*reader)->entries()[0].name, "split.weight");
  EXPECT_EQ((*reader)->entries()[0].shape, (std::vector<int64_t>{5, 4}));
}

TEST(ModelFileTest, AnotherFileThanTheOneThatWasSummedIsRefused) {
  Plan plan;
  AddParameter(plan, "split.weight", *Layout::Partition({1 << 20, 2}, DType::kFloat64, {2, 1}, {0, 1}));
  const std::string path = Path("summed.safetensors");
  auto writer = SafetensorsWriter::Create(path, {{"split.weight", DType::kFloat64, {1 << 20, 2}}});
  ASSERT_TRUE(writer.ok()) << writer.status();
  const std::vector<double> ones(2 << 20, 1.0);
  ASSERT_TRUE((*writer)->Append(ones.data(), static_cast<int64_t>(8 * ones.size())).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  const auto sums = SumFile(path, Deadline::After(absl::Minutes(5)));
  ASSERT_TRUE(sums.ok()) << sums.status();
  for (int rank = 0; rank < 2; ++rank) {
    auto parameters = Parameters::Create(plan, rank);
    ASSERT_TRUE(parameters.ok()) << parameters.status();
    EXPECT_TRUE(LoadModel(path, /*strict=*/true, &*parameters, &*sums).ok());
  }
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(-1, std::ios::end).put('x');
  for (int rank = 0; rank < 2; ++rank) {
    auto parameters = Parameters::Create(plan, rank);
    ASSERT_TRUE(parameters.ok()) << parameters.status();
    EXPECT_TRUE(LoadModel(path, /*strict=*/true, &*parameters).ok()) << "nothing tells that it is another";
    const absl::Status status = LoadModel(path, /*strict=*/true, &*parameters, &*sums).status();
    EXPECT_TRUE(IsHopelessFailure(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("not the file that it was when the job was submitted"));
  }
}

void WriteTensors(const std::string& path, const std::vector<SafetensorsEntry>& entries) {
  auto writer = SafetensorsWriter::Create(path, entries);
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (const SafetensorsEntry& entry : entries) {
    const std::vector<float> ones(VolumeOf(entry.shape), 1.0f);
    ASSERT_TRUE((*writer)->Append(ones.data(), entry.Bytes()).ok());
  }
  ASSERT_TRUE((*writer)->Finish().ok());
}

TEST(ModelFileTest, ListsDifferences) {
  const Plan plan = ModelPlan();
  const std::string path = Path("other.safetensors");
  WriteTensors(path, {{"split.weight", DType::kFloat32, {4, 5}},
                      {"owned.bias", DType::kFloat32, {7}},
                      {"everywhere.weight", DType::kFloat32, {2, 3}},
                      {"stranger", DType::kFloat32, {1}}});
  auto parameters = Parameters::Create(plan, 1);
  ASSERT_TRUE(parameters.ok());
  const absl::Status strict = LoadModel(path, true, &*parameters).status();
  EXPECT_EQ(strict.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(strict.message()), AllOf(HasSubstr("other.safetensors does not fit"),
                                                   HasSubstr("missing: finer"), HasSubstr("not in the model: stranger"),
                                                   HasSubstr("split.weight: 5x4 in the model, 4x5 in the file")));
  EXPECT_EQ(parameters->tensor(1).sum().item<double>(), 0) << "nothing may have changed";
  auto differences = LoadModel(path, false, &*parameters);
  ASSERT_TRUE(differences.ok()) << differences.status();
  EXPECT_EQ(differences->missing, std::vector<std::string>{"finer"});
  EXPECT_EQ(differences->extra, std::vector<std::string>{"stranger"});
  EXPECT_EQ(differences->misshaped.size(), 1u);
  EXPECT_EQ(parameters->tensor(1).sum().item<double>(), 7) << "converted from float32";
  EXPECT_EQ(parameters->tensor(2).sum().item<double>(), 6);
  EXPECT_EQ(LoadModel(Path("none"), true, &*parameters).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace adjoin
