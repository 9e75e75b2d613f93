// Runs whole jobs, with threads as ranks, and the files that they read and write.
//
//   JobFolder folder("unet");                                    // empty; data/ and output/ in it
//   folder.WriteArray("data/volumes.npy", volumes);
//   folder.WriteModel("data/w.safetensors", {{"conv.weight", w}});
//   ASSERT_EQ(RunJob(spec_text, {{"set", 3}}, folder).status(), absl::OkStatus());
//   at::Tensor written = *folder.ReadArray("output/job/head.npy");      // float64
#ifndef ADJOIN_TESTS_PREDICT_JOB_RUN_H_
#define ADJOIN_TESTS_PREDICT_JOB_RUN_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/plan.pb.h"
#include "worker/session/session.h"

namespace adjoin {

using Tensors = std::map<std::string, at::Tensor>;

class JobFolder {
 public:
  explicit JobFolder(const std::string& name);
  std::string Path(const std::string& relative) const { return root_ + "/" + relative; }

  // An .npy file, or .nii of one [z, y, x] volume, of float32, float64, uint8 or int64.
  void WriteArray(const std::string& path, const at::Tensor& values, const std::string& nifti_header = "") const;
  absl::StatusOr<at::Tensor> ReadArray(const std::string& path) const;
  absl::Status WriteModel(const std::string& path, const Tensors& tensors) const;
  std::string Bytes(const std::string& path) const;

 private:
  std::string root_;
};

// Parses and plans a job.
absl::StatusOr<Plan> PlanOfText(const std::string& spec, const std::map<std::string, int64_t>& sizes);

// One result per rank. Epoch 0: files are written where they stay. `log` gets the lines of rank 0. Errors: the job's.
absl::StatusOr<std::vector<SessionResult>> RunJob(const std::string& spec, const std::map<std::string, int64_t>& sizes,
                                                  const JobFolder& folder, uint64_t epoch = 0,
                                                  std::vector<std::string>* log = nullptr);

// The same of a job that has been planned.
absl::StatusOr<std::vector<SessionResult>> RunPlan(const Plan& plan, const JobFolder& folder, uint64_t epoch = 0,
                                                   std::vector<std::string>* log = nullptr);

// Every parameter and buffer of the plan, drawn at random; variances are positive.
Tensors RandomModel(const Plan& plan);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_PREDICT_JOB_RUN_H_
