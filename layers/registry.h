// Which class runs which kind of layer. Explicit: nothing registers itself, nothing is loaded at run time.
//
//   LayerRegistry registry = BuiltinLayers();
//   registry.Register("my_layer", [](LayerContext context) -> absl::StatusOr<std::unique_ptr<LayerModule>> {
//     return std::make_unique<MyLayer>(std::move(context));
//   });
//
// The kind is KindOf(layer) of layers/rules/layer_kind.h: the name of the field that is set in Layer.op ("conv"), or
// Custom.type for a `custom` layer. The planner's rule of that kind is linked separately. A value; any thread may read
// it.
#ifndef ADJOIN_LAYERS_REGISTRY_H_
#define ADJOIN_LAYERS_REGISTRY_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "layers/layer.h"

namespace adjoin {

class LayerRegistry {
 public:
  // Errors of a builder: kInvalidArgument (what this layer was asked for and cannot do).
  using Builder = std::function<absl::StatusOr<std::unique_ptr<LayerModule>>(LayerContext)>;

  // Replaces the builder of a kind that is registered already.
  void Register(const std::string& kind, Builder builder) { builders_[kind] = std::move(builder); }

  // The registered kinds, sorted.
  std::vector<std::string> Kinds() const;

  // Errors: kInvalidArgument where no builder of the layer's kind is known (lists the known kinds); the builder's, with
  // the layer's name.
  absl::StatusOr<std::unique_ptr<LayerModule>> Build(LayerContext context) const;

 private:
  std::map<std::string, Builder> builders_;
};

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_REGISTRY_H_
