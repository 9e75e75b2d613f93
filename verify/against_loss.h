// The loss and the gradients of a sample, against those that the serial model computes in evaluation mode.
//
//   LossSample loss("sample.npz", spec, plan);
//   loss.Take(by_name);                                  // takes "loss", "grad.conv1.weight", "input.label" out
//   if (loss.given()) ADJOIN_ASSIGN_OR_RETURN(result.loss, loss.Compare(job, weights, fields, options, tolerance));
#ifndef ADJOIN_VERIFY_AGAINST_LOSS_H_
#define ADJOIN_VERIFY_AGAINST_LOSS_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "verify/against.h"
#include "verify/sample_file.h"
#include "verify/serial_model.h"

namespace adjoin {

class LossSample {
 public:
  // `file` is for messages; `spec` is the job as the user wrote it, and outlives this.
  LossSample(std::string file, const JobSpec& spec, const Plan& plan);

  // Moves the arrays of loss, gradients and targets out of a sample's.
  void Take(std::map<std::string, SampleArray>& sample);
  // The names that Take knows.
  const std::set<std::string>& known() const { return known_; }
  bool given() const { return loss_given_; }

  // `job` is what is computed, without losses; `weights` and `fields` are those of the evaluation. First the loss, then
  // gradients in the order of the backward pass. Errors: kInvalidArgument: the job has no loss, a target is missing, or
  // it or a gradient has another shape or type; the sample has gradients, but not of each parameter that the job
  // trains; as SerialModel.
  absl::StatusOr<std::vector<SampleDifference>> Compare(const JobSpec& job, const NamedTensors& weights,
                                                        const NamedTensors& fields, const SerialModelOptions& options,
                                                        std::optional<double> tolerance) const;

 private:
  absl::StatusOr<NamedTensors> Targets(const JobSpec& job, const NamedTensors& fields) const;
  absl::Status CheckGradients() const;

  const std::string file_;
  const JobSpec& spec_;
  std::vector<std::string> trained_;  // parameters, in the plan's order
  std::set<std::string> known_;
  std::map<std::string, SampleArray> arrays_;
  bool loss_given_ = false;
};

}  // namespace adjoin

#endif  // ADJOIN_VERIFY_AGAINST_LOSS_H_
