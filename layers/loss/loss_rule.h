// What the planner knows of a loss: where prediction and target are compared, and what that takes to be moved.
//
//   ADJOIN_RETURN_IF_ERROR(CheckLossFields(spec));
//   ADJOIN_ASSIGN_OR_RETURN(LossOutcome outcome, ApplyLossRule({spec, prediction, {64}, DType::kInt64}));
//   outcome.prediction;   // every element lies on one rank, each rank's targets beside it
//
// The prediction stays cut as it is; of copies, the first counts. Only cross_entropy and nll read all classes at once:
// where these are cut, the ranks that share them divide their samples (or pixels) instead. Each rank's share of a mean
// is the sum over its elements / the global count. Dice is of sums over all ranks: these are summed first, and the
// result, the same on every rank, counts on one. Pure; any thread.
#ifndef ADJOIN_LAYERS_LOSS_LOSS_RULE_H_
#define ADJOIN_LAYERS_LOSS_LOSS_RULE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "primitives/geometry/dtype.h"
#include "primitives/geometry/layout.h"
#include "proto/job.pb.h"

namespace adjoin {

struct LossRequest {
  const Loss& spec;          // has passed CheckLossFields
  const Layout& prediction;  // as its layer leaves it; S and B only
  // A batch of the field. [n] is right for a prediction of numbers [n, 1]: each sample is compared with its own target.
  std::vector<int64_t> target_shape;
  DType target_dtype = DType::kFloat32;
  const Layout* variance = nullptr;  // of Loss.variance, as its layer leaves it
};

// What a loss moves; `from` and `to` have one dtype and shape. The roles: layers/loss/loss_roles.h.
struct LossMovement {
  std::string role;
  Layout from;
  Layout to;
  bool differentiable = false;
};

struct LossOutcome {
  Loss spec;  // as written, with the defaults filled in
  Layout prediction;
  Layout target;
  std::vector<LossMovement> movement;  // in the order of their use
};

// The type in which a loss of predictions of a type is computed, and its targets are read: float32 for bfloat16.
DType LossType(DType prediction);

// Whether the loss compares the prediction with the numbers of classes, so that it is right or wrong: its largest class
// is the target or not. `target_dtype`: of the target's field or value. (Cross_entropy also takes probabilities.)
bool IsClassification(const Loss& spec, absl::string_view target_dtype);

// What can be said without shapes: the kind, options that this kind does not have, numbers out of range.
// Errors: kInvalidArgument, at fields of Loss.
absl::Status CheckLossFields(const Loss& spec);

// Errors: kInvalidArgument, at fields of Loss (a target or variance of another type or shape than the loss compares
// with; lists that are not one value per class or channel).
absl::StatusOr<LossOutcome> ApplyLossRule(const LossRequest& request);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_LOSS_LOSS_RULE_H_
