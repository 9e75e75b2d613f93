#include "tests/e2e/mnist_jobs.h"
#include "primitives/testing/rank_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include <nlohmann/json.hpp>

#include <ATen/ops/empty.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/builtin/builtin_rules.h"
#include "planner/plan/planner.h"
#include "planner/spec/spec_parser.h"
#include "primitives/geometry/box.h"
#include "primitives/geometry/dtype.h"
#include "primitives/torch_dtype.h"
#include "worker/model/safetensors.h"

namespace adjoin {
namespace {

namespace fs = std::filesystem;

absl::Status CompareTraffic(const Plan& plan, int rank, const SessionResult& result) {
  // The plan counts the sum of the gradients with each micro-batch.
  if (plan.spec().train().microbatches() > 1) return absl::OkStatus();
  for (const ProgramPlan& program : plan.program()) {
    const auto steps = result.steps.find(program.name());
    if (steps == result.steps.end()) continue;
    const int64_t sent = result.bytes_sent.at(program.name());
    const int64_t planned = steps->second * program.bytes_per_step(rank);
    if (sent != planned) {
      return absl::InternalError(absl::StrCat("rank ", rank, " sent ", sent, " bytes in ", steps->second, " steps of ",
                                              program.name(), "; the plan says ", planned));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<NamedTensors> ReadWeights(const std::string& path) {
  ADJOIN_ASSIGN_OR_RETURN(const auto reader, SafetensorsReader::Open(path));
  NamedTensors weights;
  for (const SafetensorsEntry& entry : reader->entries()) {
    at::Tensor tensor = at::empty(entry.shape, ScalarTypeOf(entry.dtype));
    ADJOIN_RETURN_IF_ERROR(reader->ReadBox(entry, Box::Whole(entry.shape), tensor.data_ptr()));
    weights[entry.name] = tensor;
  }
  return weights;
}

}  // namespace

absl::StatusOr<JobSpec> ExampleJob(const std::string& name) {
  const std::string path = absl::StrCat("examples/mnist/", name, ".textproto");
  std::ifstream in(path);
  if (!in) return absl::NotFoundError(path);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  ADJOIN_ASSIGN_OR_RETURN(const ParsedSpec parsed, ParseSpec(text, path));
  return parsed.spec;
}

void ShortenTo(int64_t steps, const std::string& dtype, JobSpec& spec) {
  spec.mutable_train()->set_steps(static_cast<uint64_t>(steps));
  spec.mutable_precision()->set_compute(dtype);
  spec.mutable_precision()->set_params(dtype);
  spec.mutable_weights()->set_init_from("init.safetensors");
  for (Dataset& dataset : *spec.mutable_dataset()) {
    dataset.set_limit(dataset.name() == "train" ? kTrainLimit : kTestLimit);
  }
}

Folders MakeFolders(const std::string& name, const NamedTensors& initial) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  std::string folder = absl::StrCat(testing::TempDir(), "/", test->name(), "-", name);
  for (char& c : folder) c = c == ' ' ? '_' : c;
  fs::remove_all(folder);
  Folders folders = {folder + "/data", folder + "/output"};
  fs::create_directories(folders.data);
  fs::create_directories(folders.output);
  // Copies: runfiles are links to elsewhere, and a session follows no link out of its data root.
  fs::create_directories(folders.data + "/mnist");
  for (const auto& entry : fs::directory_iterator("examples/mnist")) {
    if (entry.path().extension() == ".gz") {
      fs::copy_file(entry.path(), fs::path(folders.data) / "mnist" / entry.path().filename());
    }
  }
  if (!initial.empty()) WriteWeights(folders.data + "/init.safetensors", initial);
  return folders;
}

void WriteWeights(const std::string& path, const NamedTensors& weights) {
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, tensor] : weights) {
    const DType dtype = tensor.scalar_type() == at::kDouble ? DType::kFloat64 : DType::kFloat32;
    entries.push_back({name, dtype, tensor.sizes().vec()});
  }
  auto writer = SafetensorsWriter::Create(path, entries);
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (const auto& [name, tensor] : weights) {
    const at::Tensor whole = tensor.contiguous();
    ASSERT_TRUE((*writer)->Append(whole.data_ptr(), static_cast<int64_t>(whole.nbytes())).ok());
  }
  const absl::Status status = (*writer)->Finish();
  ASSERT_TRUE(status.ok()) << status;
}

absl::StatusOr<JobOutput> ReadOutput(const std::string& folder) {
  JobOutput output;
  std::ifstream in(folder + "/metrics.jsonl");
  if (!in) return absl::NotFoundError(folder + "/metrics.jsonl");
  for (std::string line; std::getline(in, line);) {
    const nlohmann::json entry = nlohmann::json::parse(line);
    if (entry["type"] == "step") {
      output.losses.push_back(entry["loss"].get<double>());
      output.bytes_sent.push_back(entry.value("bytes_sent", int64_t{0}));
      output.rates.push_back(entry["lr"].get<double>());
      if (entry.contains("grad_norm")) {
        const nlohmann::json& norm = entry["grad_norm"];
        output.norms.push_back(norm.is_null() ? std::nan("") : norm.get<double>());
      }
      output.skipped += entry.value("skipped", int64_t{0});
    } else if (entry["type"] == "validation") {
      output.validation_losses.push_back(entry["loss"].get<double>());
      output.validation_steps.push_back(entry["step"].get<int64_t>());
    } else if (entry["type"] == "evaluation") {
      output.correct = entry.value("correct", int64_t{0});
      output.test_loss = entry["loss"].get<double>();
    }
  }
  ADJOIN_ASSIGN_OR_RETURN(output.weights, ReadWeights(folder + "/model.safetensors"));
  return output;
}

absl::StatusOr<Plan> PlanOf(const JobSpec& spec) {
  return Planner::Build(spec, {{"train", 10000}, {"test", 2000}}, BuiltinLayerRules());
}

absl::StatusOr<JobOutput> RunOnThreads(const JobSpec& spec, const Folders& folders, TransportKind transport,
                                       uint64_t seed, std::vector<SessionResult>* results) {
  ADJOIN_ASSIGN_OR_RETURN(const Plan plan, PlanOf(spec));
  std::vector<SessionResult> returned(spec.ranks());
  ADJOIN_RETURN_IF_ERROR(RunRanks(
      static_cast<int>(spec.ranks()), transport, seed,
      [&](Transport& t) -> absl::Status {
        ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<LocalMemory> memory, MemoryOfRank(transport, t.rank(), seed));
        SessionOptions options;
        options.memory = memory.get();
        options.plan = plan;
        options.data_root = folders.data;
        options.output_root = folders.output;
        options.transport = &t;
        options.timeout = absl::Seconds(60);
        ADJOIN_ASSIGN_OR_RETURN(returned[t.rank()], RunSession(options));
        return CompareTraffic(plan, t.rank(), returned[t.rank()]);
      },
      absl::Seconds(120)));
  if (results != nullptr) *results = std::move(returned);
  return ReadOutput(absl::StrCat(folders.output, "/", spec.output_dir()));
}

std::string Differences(const JobOutput& job, const SerialRun& truth, double tolerance) {
  if (job.losses.size() != truth.losses.size()) {
    return absl::StrCat(job.losses.size(), " steps, expected ", truth.losses.size());
  }
  for (size_t i = 0; i < truth.losses.size(); ++i) {
    if (!(std::abs(job.losses[i] - truth.losses[i]) <= tolerance * std::abs(truth.losses[i]))) {
      return absl::StrCat("loss of step ", i + 1, " is ", job.losses[i], ", expected ", truth.losses[i], ", off by ",
                          job.losses[i] - truth.losses[i]);
    }
  }
  if (job.weights.size() != truth.weights.size()) return absl::StrCat(job.weights.size(), " weights");
  for (const auto& [name, expected] : truth.weights) {
    const auto found = job.weights.find(name);
    if (found == job.weights.end() || found->second.sizes() != expected.sizes() ||
        found->second.scalar_type() != expected.scalar_type()) {
      return absl::StrCat(name, " is missing or has another shape or type");
    }
    const double off = (found->second - expected).abs().max().item<double>();
    const double largest = expected.abs().max().item<double>();
    if (!(off <= tolerance * largest)) return absl::StrCat(name, " is off by ", off, " where its largest is ", largest);
  }
  const auto differs = [tolerance](const std::vector<double>& a, const std::vector<double>& b) {
    const auto close = [tolerance](double x, double y) { return std::abs(x - y) <= tolerance * std::abs(y); };
    return !std::equal(a.begin(), a.end(), b.begin(), b.end(), close);
  };
  if (differs(job.norms, truth.norms)) return "norms of the gradients differ";
  if (differs(job.validation_losses, truth.validation_losses)) return "losses of the validations differ";
  if (job.correct != truth.correct) return absl::StrCat(job.correct, " right, expected ", truth.correct);
  if (!(std::abs(job.test_loss - truth.test_loss) <= tolerance * truth.test_loss)) {
    return absl::StrCat("test loss ", job.test_loss, ", expected ", truth.test_loss);
  }
  return "";
}

}  // namespace adjoin
