#include "layers/pool/pool.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "layers/pool/average_pool.h"
#include "layers/pool/max_pool.h"

namespace adjoin {

absl::StatusOr<std::unique_ptr<LayerModule>> BuildPool(LayerContext context) {
  const std::string& mode = context.plan.spec().pool().mode();
  if (mode == "max") return BuildMaxPool(std::move(context));
  if (mode == "avg" || mode == "lp") return BuildAveragePool(std::move(context));
  return absl::InvalidArgumentError(
      absl::StrCat("pooling of mode \"", mode, "\" has no builder; known: \"max\", \"avg\", \"lp\""));
}

}  // namespace adjoin
