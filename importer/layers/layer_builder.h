// What the rules of the import write to: the layers so far, which value of the graph each of them computes, and where
// their weights come from.
//
//   absl::Status Relu(const OpNode& node, LayerBuilder& builder) {
//     Layer layer;
//     layer.mutable_activation()->set_fn("relu");
//     return builder.Add(node, std::move(layer), {node.Tensor("self")});
//   }
//
// One thread.
#ifndef ADJOIN_IMPORTER_LAYERS_LAYER_BUILDER_H_
#define ADJOIN_IMPORTER_LAYERS_LAYER_BUILDER_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "importer/graph/op_graph.h"
#include "proto/job.pb.h"

namespace adjoin {

// A tensor of the weights' file.
struct ImportedWeight {
  std::string name;    // in the job: "conv1.weight"
  std::string source;  // in the archive; "": a whole number, 0, which the archive lacks
};

// A parameter that a layer takes: its role there, and its value in the graph. A value of "" is left out.
using LayerParameter = std::pair<std::string, std::string>;

class LayerBuilder {
 public:
  // `fields`: what the graph's inputs are called in the job. `graph` outlives the builder.
  LayerBuilder(const OpGraph& graph, const std::vector<std::string>& fields);

  // -- For rules. `node` is the operator at hand.
  // The extents of a value. Errors: kInvalidArgument for a value of a type that is not supported.
  absl::StatusOr<std::vector<int64_t>> Shape(const std::string& value) const;
  bool SameType(const std::string& a, const std::string& b) const;  // false where one is not known
  bool IsParameter(const std::string& value) const { return graph_.parameters.count(value) > 0; }
  // Appends a layer that computes the node's first output from these values and parameters. Its name is the prefix of
  // its parameters, or else the module's path. Errors: kInvalidArgument: an input that is a parameter, or that no layer
  // computes.
  absl::Status Add(const OpNode& node, Layer layer, const std::vector<std::string>& inputs,
                   const std::vector<LayerParameter>& parameters = {});
  // Whether the node's first output is the tensor that it was given: a later change in place changes both, only one, or
  // PyTorch decides when it runs, so that what is not changed must not be read afterwards.
  enum class Shares { kAlways, kNever, kPerhaps };
  // The node's first output is what `value` is; no layer is needed.
  absl::Status Alias(const OpNode& node, const std::string& value, Shares shares = Shares::kAlways);
  // The node's first output shares its elements with `value` where PyTorch says so.
  void ShareElements(const OpNode& node, const std::string& value) { base_[node.outputs[0]] = BaseOf(value); }
  // The last layer also has a whole number that no operator reads, in PyTorch beside the parameter `sibling`; 0 where
  // the archive lacks it.
  void AddUnreadBuffer(const std::string& role, const std::string& sibling);
  // True where a layer has the parameter already.
  bool Owned(const std::string& value) const;
  // True where `value` depends on parameters, so that gradients flow through it.
  bool Trained(const std::string& value) const;
  // The node's outputs have no layer, and nothing is known of them.
  void Forget(const OpNode& node);

  // -- Results.
  // The layer or field of a value. Errors: as Add.
  absl::StatusOr<std::string> SourceOf(const std::string& value) const;
  const std::vector<Layer>& layers() const { return layers_; }
  const std::vector<ImportedWeight>& weights() const { return weights_; }
  // True where a value comes from a node that was forgotten.
  bool Forgotten(const std::string& value) const { return forgotten_.count(value) > 0; }

 private:
  std::string BaseOf(const std::string& value) const;
  std::string TensorOf(const std::string& value) const;
  std::string NameOf(const OpNode& node, const std::vector<LayerParameter>& parameters);
  std::string Unique(std::string name);
  absl::Status TakeParameters(const std::vector<LayerParameter>& parameters, Layer& layer);
  void Bind(const OpNode& node, const std::string& source);

  const OpGraph& graph_;
  std::vector<Layer> layers_;
  std::vector<ImportedWeight> weights_;
  std::set<std::string> names_;                // of layers and fields
  std::map<std::string, int> next_suffix_;     // by a name that is taken
  std::set<std::string> trained_;              // layers that depend on parameters
  std::set<std::string> parameter_names_;      // in PyTorch
  std::map<std::string, std::string> source_;  // of a value: its layer or field
  std::map<std::string, std::string> base_;    // of a value that is a view: the value that it views
  std::map<std::string, std::string> tensor_;  // of a value that is another under a second name: the first one
  std::map<std::string, std::string> owner_;   // of a parameter, by its name in PyTorch: the layer that has it
  std::set<std::string> stale_;                // values that changed in place by way of another view
  std::set<std::string> forgotten_;
  std::set<std::string> modules_with_parameters_;
};

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_LAYERS_LAYER_BUILDER_H_
