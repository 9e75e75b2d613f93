// Does a job's model compute what PyTorch did? Runs it with the job's weights on the input that a sample holds,
// serially and partitioned, in evaluation mode and float64, and compares with the sample's outputs.
//
//   AgainstOptions options;
//   options.sample = "sample.npz";
//   options.weights = "model.safetensors";
//   ADJOIN_ASSIGN_OR_RETURN(AgainstResult result, VerifyAgainst(parsed, options));
//   std::cout << AgainstText(result);
//   return result.deviates() ? 1 : 0;
//
// The sample's arrays: `input.<field>`, `output` or `output.<i>` (of predict.input, or of the losses' inputs, from 0),
// `output.<layer>`; `loss` and `grad.<parameter>`. Dim 0 is the batch. One call at a time.
#ifndef ADJOIN_VERIFY_AGAINST_H_
#define ADJOIN_VERIFY_AGAINST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "planner/auto/auto_layouts.h"
#include "planner/spec/spec_parser.h"
#include "verify/comparison.h"
#include "verify/verify.h"

namespace adjoin {

struct AgainstOptions {
  std::string sample;     // an .npz file
  std::string weights;    // a safetensors file; empty: the job's weights.init_from below data_root
  std::string data_root;  // empty: none
  // With --auto: layouts are chosen for each number of ranks, for the sample's batch; else the job's are re-cut.
  AutoLayoutOptions layouts;
  // The tolerance is that of the comparison with PyTorch; absent: 1e-4 of float32, 1e-10 of float64. Not used: steps,
  // batch, seed.
  VerifyOptions verify;
};

// One of the sample's outputs against what was computed. Relative to the largest element of the sample's.
struct SampleDifference {
  std::string array;  // "output", "output.conv1"
  std::string layer;
  double tolerance = 0;
  Difference difference;
  bool deviates() const { return difference.deviates(tolerance); }
};

struct AgainstRanks {
  uint32_t ranks = 0;
  bool recut = false, chosen = false;    // as --auto says
  absl::Status failure;                  // as RanksResult; or no layouts can be chosen
  std::vector<LayerComparison> layers;   // only `output`: the partitioned model against the serial one
  std::vector<SampleDifference> sample;  // in the order of the network
  bool deviates() const;
};

struct AgainstResult {
  std::string job, sample, weights;
  int64_t batch = 0;
  std::vector<std::string> warnings;
  std::vector<SampleDifference> serial;  // in the order of the network
  // The serial model's loss, and gradients in the order of the backward pass; `layer` is the parameter.
  std::vector<SampleDifference> loss;
  std::vector<AgainstRanks> runs;
  bool deviates() const;
};

// Errors: as Verify; of the files, as ReadSampleFile, SafetensorsReader and CheckDifferences; kInvalidArgument (no
// weights, an array that is missing or unknown, has another shape or type than the model's).
absl::StatusOr<AgainstResult> VerifyAgainst(const ParsedSpec& parsed, const AgainstOptions& options);

std::string AgainstText(const AgainstResult& result);

}  // namespace adjoin

#endif  // ADJOIN_VERIFY_AGAINST_H_
