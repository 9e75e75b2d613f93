#include "layers/loss/loss_builder.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "layers/loss/class_losses.h"
#include "layers/loss/cosine_loss.h"
#include "layers/loss/dice_loss.h"
#include "layers/loss/elementwise_losses.h"

namespace adjoin {

absl::StatusOr<LossFunction> BuildLoss(LossContext context) {
  using Builder = absl::StatusOr<LossFunction> (*)(LossContext);
  static const auto* builders = new std::map<std::string, Builder>{
      {"cross_entropy", BuildClassLoss},
      {"nll", BuildClassLoss},
      {"mse", BuildMse},
      {"l1", BuildL1},
      {"huber", BuildHuber},
      {"smooth_l1", BuildSmoothL1},
      {"bce", BuildBce},
      {"bce_with_logits", BuildBceWithLogits},
      {"poisson_nll", BuildPoissonNll},
      {"gaussian_nll", BuildGaussianNll},
      {"kl_div", BuildKlDiv},
      {"dice", BuildDice},
      {"cosine", BuildCosine},
  };
  const auto builder = builders->find(context.spec.kind());
  if (builder != builders->end()) return builder->second(std::move(context));
  std::vector<std::string> known;
  for (const auto& entry : *builders) known.push_back(entry.first);
  return absl::InvalidArgumentError(
      absl::StrCat("loss \"", context.spec.kind(), "\" has no builder; known: ", absl::StrJoin(known, ", ")));
}

}  // namespace adjoin
