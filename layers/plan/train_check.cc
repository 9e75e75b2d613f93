#include "layers/plan/train_check.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "layers/plan/name_check.h"
#include "layers/plan/spec_error.h"

namespace adjoin {
namespace {

absl::Status CheckSgd(const Sgd& sgd) {
  for (double value : {sgd.lr(), sgd.momentum(), sgd.dampening(), sgd.weight_decay()}) {
    ADJOIN_RETURN_IF_ERROR(CheckFinite("train.optimizer.sgd", value));
  }
  if (!(sgd.lr() > 0)) {
    return AtField("train.optimizer.sgd.lr",
                   InvalidSpec("train.optimizer.sgd.lr is ", sgd.lr(), "; it must be above 0"));
  }
  if (sgd.momentum() < 0 || sgd.weight_decay() < 0) {
    return AtField(sgd.momentum() < 0 ? "train.optimizer.sgd.momentum" : "train.optimizer.sgd.weight_decay",
                   InvalidSpec("momentum and weight_decay of train.optimizer.sgd must not be negative"));
  }
  if (sgd.nesterov() && (sgd.momentum() == 0 || sgd.dampening() != 0)) {
    return AtField("train.optimizer.sgd.nesterov",
                   InvalidSpec("nesterov of train.optimizer.sgd needs a momentum above 0 and no dampening"));
  }
  return absl::OkStatus();
}

// Counted exactly, also where they are written as JSON.
constexpr uint64_t kMostSteps = uint64_t{1} << 53;

}  // namespace

absl::Status CheckTrain(const JobSpec& spec) {
  if (spec.kind() != TRAIN && !spec.has_train()) return absl::OkStatus();
  if (!spec.has_train())
    return InvalidSpec("train is missing: train { dataset: ... batch: ... epochs: ... optimizer {...} }");
  const Train& train = spec.train();
  ADJOIN_RETURN_IF_ERROR(CheckReference(spec, "train.dataset", train.dataset()));
  if (train.batch() < 1) return AtField("train.batch", InvalidSpec("train.batch is 0; it must be at least 1"));
  if (train.length_case() == Train::LENGTH_NOT_SET) {
    return AtField("train", InvalidSpec("train.epochs or train.steps is missing: when to stop"));
  }
  if (train.has_epochs() ? train.epochs() < 1 : train.steps() < 1) {
    const char* field = train.has_epochs() ? "train.epochs" : "train.steps";
    return AtField(field, InvalidSpec(field, " is 0; it must be at least 1"));
  }
  if (train.has_steps() && train.steps() > kMostSteps) {
    return AtField("train.steps", InvalidSpec("train.steps is ", train.steps(), "; at most 2^53 are possible"));
  }
  if (train.microbatches() > 1) {
    return AtField("train.microbatches",
                   NotSupportedYet(absl::StrCat("train.microbatches: ", train.microbatches()), "1 is"));
  }
  if (!train.has_optimizer() || !train.optimizer().has_sgd()) {
    return AtField("train", InvalidSpec("train.optimizer is missing: optimizer { sgd { lr: 0.01 } }"));
  }
  return CheckSgd(train.optimizer().sgd());
}

}  // namespace adjoin
