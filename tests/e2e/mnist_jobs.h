// The jobs of examples/mnist, made short, run and compared.
//
//   JobSpec spec = *ExampleJob("lenet5-spatial");
//   ShortenTo(50, "float64", spec);
//   Folders folders = MakeFolders("spatial", InitialWeights(1, torch::kFloat64));
//   ADJOIN_ASSIGN_OR_RETURN(JobOutput job, RunOnThreads(spec, folders, TransportKind::kUcxSharedMemory, seed));
//   EXPECT_EQ(Differences(job, TrainSerially(...), 1e-10), "");
#ifndef ADJOIN_TESTS_E2E_MNIST_JOBS_H_
#define ADJOIN_TESTS_E2E_MNIST_JOBS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "primitives/transport/transport_ranks.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "tests/e2e/serial_lenet.h"
#include "worker/session/session.h"

namespace adjoin {

inline constexpr const char* kExampleJobs[] = {"lenet5-serial", "lenet5-spatial", "lenet5-sync-sgd", "lenet5-hybrid",
                                               "lenet5-two-stage"};
inline constexpr int64_t kTrainLimit = 501;  // 7 batches of 64 and one of 53, which no four ranks share evenly
inline constexpr int64_t kTestLimit = 300;

// Initial weights. In float32 an activation within rounding of a ReLU's kink, or of another maximum, sends a gradient
// another way; plain PyTorch that adds each batch's gradient up in four chunks then differs from itself by 7e-4 after
// 50 steps from some of the initial weights. Those of kSeedFloat32 are not of that kind, which MnistTruth checks.
inline constexpr uint64_t kSeedFloat64 = 1;
inline constexpr uint64_t kSeedFloat32 = 3;

absl::StatusOr<JobSpec> ExampleJob(const std::string& name);

// So many steps on kTrainLimit samples, in this type throughout, from init.safetensors; kTestLimit test images.
void ShortenTo(int64_t steps, const std::string& dtype, JobSpec& spec);

struct Folders {
  std::string data;  // holds mnist/ and init.safetensors
  std::string output;
};
// New ones in the test's folder, empty but for the data.
Folders MakeFolders(const std::string& name, const NamedTensors& initial);

void WriteWeights(const std::string& path, const NamedTensors& weights);

// The results in a job's output folder.
struct JobOutput {
  std::vector<double> losses;
  std::vector<int64_t> bytes_sent;  // by rank 0, of each step
  int64_t correct = 0;
  double test_loss = 0;
  std::vector<double> rates;  // learning rates, of each step
  std::vector<double> norms;  // norms of the gradients, likewise, where they are clipped or scaled; NaN: not finite
  int64_t skipped = 0;        // steps
  std::vector<double> validation_losses;
  std::vector<int64_t> validation_steps;
  NamedTensors weights;
};
absl::StatusOr<JobOutput> ReadOutput(const std::string& folder);

absl::StatusOr<Plan> PlanOf(const JobSpec& spec);

// Runs sessions on threads as ranks. Every rank's bytes sent are compared with the plan's, but for micro-batches;
// `results` (may be null) gets what each rank's session returned.
absl::StatusOr<JobOutput> RunOnThreads(const JobSpec& spec, const Folders& folders, TransportKind transport,
                                       uint64_t seed, std::vector<SessionResult>* results = nullptr);

// "" where every loss, and every weight relative to its tensor's largest one, is within `tolerance` of the truth, and
// the evaluation agrees; else the first difference.
std::string Differences(const JobOutput& job, const SerialRun& truth, double tolerance);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_E2E_MNIST_JOBS_H_
