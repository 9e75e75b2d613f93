#include "layers/rules/layer_kind.h"

namespace adjoin {

std::string KindOf(const Layer& layer) {
  if (layer.has_custom()) return layer.custom().type();
  if (layer.op_case() == Layer::OP_NOT_SET) return "";
  return Layer::descriptor()->FindFieldByNumber(layer.op_case())->name();
}

}  // namespace adjoin
