#include "tests/predict/job_run.h"
#include "primitives/testing/rank_memory.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "base/status_macros.h"
#include "layers/builtin/builtin_rules.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_parser.h"
#include "primitives/geometry/box.h"
#include "primitives/torch_dtype.h"
#include "primitives/transport/transport_ranks.h"
#include "worker/data/array_file.h"
#include "worker/data/array_writer.h"
#include "worker/model/safetensors.h"

namespace adjoin {
namespace {

CellType CellTypeOf(at::ScalarType type) {
  switch (type) {
    case at::kDouble: return CellType::kFloat64;
    case at::kByte: return CellType::kUInt8;
    case at::kLong: return CellType::kInt64;
    default: return CellType::kFloat32;
  }
}

// The time of one run: half of what Bazel gives the test (--test_timeout), at least a minute.
absl::Duration TimeLimit() {
  const char* const given = std::getenv("TEST_TIMEOUT");
  int seconds = 0;
  if (given == nullptr || !absl::SimpleAtoi(given, &seconds)) return absl::Minutes(1);
  return std::max(absl::Minutes(1), absl::Seconds(seconds) / 2);
}

Box Whole(const std::vector<int64_t>& shape) {
  std::vector<Interval> dims;
  for (int64_t extent : shape) dims.push_back({0, extent});
  return Box(std::move(dims));
}

absl::Status Write(const std::string& path, const at::Tensor& values, const std::string& nifti_header) {
  const std::vector<int64_t> shape = values.sizes().vec();
  ArrayWriterOptions options;
  options.nifti = nifti_header;
  ADJOIN_ASSIGN_OR_RETURN(auto writer, ArrayWriter::Create(path, absl::EndsWith(path, ".nii") ? "nifti" : "npy",
                                                           CellTypeOf(values.scalar_type()), shape, options));
  ADJOIN_RETURN_IF_ERROR(writer->Write(Whole(shape), values.contiguous().data_ptr()));
  ADJOIN_RETURN_IF_ERROR(writer->Finish());
  return writer->Publish();
}

}  // namespace

JobFolder::JobFolder(const std::string& name)
    : root_(testing::TempDir() + "/" + testing::UnitTest::GetInstance()->current_test_info()->name() + "-" + name) {
  std::filesystem::remove_all(root_);
  std::filesystem::create_directories(root_ + "/data");
  std::filesystem::create_directories(root_ + "/output");
}

void JobFolder::WriteArray(const std::string& path, const at::Tensor& values, const std::string& nifti_header) const {
  const absl::Status status = Write(Path(path), values, nifti_header);
  ASSERT_TRUE(status.ok()) << status;
}

absl::StatusOr<at::Tensor> JobFolder::ReadArray(const std::string& path) const {
  ArrayFileOptions options;
  options.object = "data";
  ADJOIN_ASSIGN_OR_RETURN(auto file, ArrayFile::Open(Path(path), options));
  at::Tensor values = at::empty(file->header().shape, at::kDouble);
  ADJOIN_RETURN_IF_ERROR(file->Read(Whole(file->header().shape), values.data_ptr<double>()));
  return values;
}

absl::Status JobFolder::WriteModel(const std::string& path, const Tensors& tensors) const {
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, tensor] : tensors) {
    entries.push_back({name, *DTypeOf(tensor.scalar_type()), tensor.sizes().vec()});
  }
  ADJOIN_ASSIGN_OR_RETURN(auto writer, SafetensorsWriter::Create(Path(path), entries));
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor values = tensor.contiguous();
    ADJOIN_RETURN_IF_ERROR(writer->Append(values.data_ptr(), static_cast<int64_t>(values.nbytes())));
  }
  return writer->Finish();
}

std::string JobFolder::Bytes(const std::string& path) const {
  std::ifstream file(Path(path), std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

absl::StatusOr<Plan> PlanOfText(const std::string& spec, const std::map<std::string, int64_t>& sizes) {
  ADJOIN_ASSIGN_OR_RETURN(const ParsedSpec parsed, ParseSpec(spec, "job"));
  DatasetSizes known;
  for (const auto& [name, samples] : sizes) known[name] = samples;
  return Planner::Build(parsed.spec, known, BuiltinLayerRules(), &parsed.locations);
}

absl::StatusOr<std::vector<SessionResult>> RunJob(const std::string& spec, const std::map<std::string, int64_t>& sizes,
                                                  const JobFolder& folder, uint64_t epoch,
                                                  std::vector<std::string>* log) {
  ADJOIN_ASSIGN_OR_RETURN(const Plan plan, PlanOfText(spec, sizes));
  return RunPlan(plan, folder, epoch, log);
}

absl::StatusOr<std::vector<SessionResult>> RunPlan(const Plan& plan, const JobFolder& folder, uint64_t epoch,
                                                   std::vector<std::string>* log) {
  const int ranks = static_cast<int>(plan.spec().ranks());
  std::vector<SessionResult> results(ranks);
  constexpr TransportKind kTransport = TransportKind::kInMemoryDelayed;
  const auto run = [&](Transport& t) -> absl::Status {
    ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<LocalMemory> memory, MemoryOfRank(kTransport, t.rank(), 7));
    SessionOptions options;
    options.memory = memory.get();
    options.plan = plan;
    options.data_root = folder.Path("data");
    options.output_root = folder.Path("output");
    options.transport = &t;
    options.timeout = absl::Seconds(30);
    options.epoch = epoch;
    options.job_id = "job-1";
    if (t.rank() == 0 && log != nullptr) options.log = [log](const std::string& line) { log->push_back(line); };
    ADJOIN_ASSIGN_OR_RETURN(results[t.rank()], RunSession(options));
    return absl::OkStatus();
  };
  ADJOIN_RETURN_IF_ERROR(RunRanks(ranks, kTransport, 7, run, TimeLimit()));
  return results;
}

Tensors RandomModel(const Plan& plan) {
  Tensors model;
  for (const ParameterPlan& parameter : plan.parameter()) {
    const std::vector<int64_t> shape(parameter.home().shape().begin(), parameter.home().shape().end());
    if (parameter.home().dtype() == "int64") {
      model[parameter.name()] = at::full(shape, 3, at::kLong);
      continue;
    }
    at::Tensor values = at::randn(shape, at::kDouble) * 0.3;
    if (absl::EndsWith(parameter.name(), "running_var")) values = values.abs() + 0.5;
    model[parameter.name()] = parameter.home().dtype() == "float32" ? values.to(at::kFloat) : values;
  }
  return model;
}

}  // namespace adjoin
