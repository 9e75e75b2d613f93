#include "tests/verify/serial_difference.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"
#include "proto/job.pb.h"
#include "tests/predict/job_run.h"
#include "verify/recut.h"
#include "verify/report.h"
#include "verify/verify.h"

namespace adjoin {
namespace {

// The steps that a job has written: their losses and norms of the gradients.
struct Measured {
  std::vector<double> loss, norm;
};

absl::StatusOr<Measured> RunWhole(const JobSpec& spec, const JobFolder& folder) {
  ADJOIN_RETURN_IF_ERROR(RunJob(spec.DebugString(), {{"data", 1000}}, folder).status());
  Measured measured;
  for (absl::string_view line : absl::StrSplit(folder.Bytes("output/out/metrics.jsonl"), '\n')) {
    const nlohmann::json fields = nlohmann::json::parse(std::string(line), nullptr, false);
    if (!fields.is_object() || fields.value("type", "") != "step") continue;
    if (!fields["loss"].is_number() || !fields["grad_norm"].is_number()) {
      return absl::InternalError(absl::StrCat("a step without loss or norm: ", line));
    }
    measured.loss.push_back(fields["loss"].get<double>());
    measured.norm.push_back(fields["grad_norm"].get<double>());
  }
  if (measured.loss.size() != 2) return absl::InternalError("it has not made two steps");
  return measured;
}

// The same job on one rank, plain.
JobSpec Plain(const JobSpec& spec) {
  JobSpec plain = Recut(spec, 1);
  plain.mutable_precision()->clear_loss_scale();
  plain.mutable_train()->clear_microbatches();
  plain.mutable_train()->clear_microbatches_in_flight();
  for (Layer& layer : *plain.mutable_layer()) layer.clear_recompute();
  return plain;
}

std::string Compare(const char* what, double found, double expected, double tolerance) {
  if (std::abs(found - expected) <= tolerance * std::max(1.0, std::abs(expected))) return "";
  return absl::StrCat(what, " is ", found, ", on one rank ", expected, "; ");
}

// "" where the whole job computes what it should, in float64 and, roughly, in its own type.
std::string DifferenceOfJob(const JobSpec& spec, bool sgd) {
  JobSpec exact = spec;
  exact.mutable_precision()->set_compute("float64");
  exact.mutable_precision()->set_params("float64");
  const auto expected = RunWhole(Plain(exact), JobFolder("plain"));
  if (!expected.ok()) return absl::StrCat("on one rank: ", expected.status().ToString());
  const auto found = RunWhole(exact, JobFolder("exact"));
  if (!found.ok()) return found.status().ToString();
  // After a step of another optimizer rounding may be divided by rounding.
  std::string difference = Compare("the first loss", found->loss[0], expected->loss[0], 1e-10);
  difference += Compare("the norm of the gradients", found->norm[0], expected->norm[0], 1e-9);
  if (sgd) difference += Compare("the second loss", found->loss[1], expected->loss[1], 1e-8);
  if (!difference.empty() || spec.precision().compute() == "float64") return difference;
  const auto rounded = RunWhole(spec, JobFolder("rounded"));
  if (!rounded.ok()) return absl::StrCat("in ", spec.precision().compute(), ": ", rounded.status().ToString());
  const double tolerance = spec.precision().compute() == "float32" ? 1e-3 : 0.2;
  difference = Compare("the first loss in the job's type", rounded->loss[0], expected->loss[0], tolerance);
  if (difference.empty()) return "";
  // Its own type may give another loss: PyTorch's binary cross-entropy takes 100 where a probability is rounded to 0
  // or 1.
  const auto alone = RunWhole(Plain(spec), JobFolder("alone"));
  if (!alone.ok()) return absl::StrCat("in ", spec.precision().compute(), " on one rank: ", alone.status().ToString());
  return Compare("the first loss in the job's type", rounded->loss[0], alone->loss[0], tolerance);
}

}  // namespace

std::string DifferenceFromSerial(const ParsedSpec& parsed, uint64_t seed) {
  const bool sgd = parsed.spec.train().optimizer().has_sgd();
  VerifyOptions options;
  options.seed = seed;
  options.steps = sgd ? 2 : 1;
  const auto result = Verify(parsed, options);
  if (!result.ok()) return absl::StrCat("refused: ", result.status().ToString());
  for (const RanksResult& run : result->runs) {
    if (!run.failure.ok()) return absl::StrCat("failed: ", run.failure.ToString());
  }
  if (result->deviates()) return absl::StrCat("deviates\n", ReportText(*result));
  const std::string difference = DifferenceOfJob(parsed.spec, sgd);
  return difference.empty() ? "" : "as a job: " + difference;
}

// What a message says, without names and numbers, to count how often it comes.
std::string KindOfMessage(absl::string_view message) {
  std::string kind;
  for (const char c : message.substr(0, message.find('\n'))) {
    const bool number = c >= '0' && c <= '9';
    if (number && !kind.empty() && kind.back() == '#') continue;
    kind.push_back(number ? '#' : c);
  }
  return kind;
}

}  // namespace adjoin
