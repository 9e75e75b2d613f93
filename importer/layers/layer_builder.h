// What the rules of the import write to: the layers so far, which value of the graph each of them computes, and where
// their weights come from.
//
//   absl::Status Relu(const OpNode& node, LayerBuilder& builder) {
//     Layer layer;
//     layer.mutable_activation()->set_fn("relu");
//     return builder.AddElementWise(node, std::move(layer), node.Tensor("self"));
//   }
//
// A value is a layer's output or a field, in another shape or order of dims perhaps (ValueView): changes of shape
// become layers where another layer reads their result. Or it is a module's own parameter, or a part of one
// (ParameterView), which becomes a layer where it is combined with another value.
//
// One thread.
#ifndef ADJOIN_IMPORTER_LAYERS_LAYER_BUILDER_H_
#define ADJOIN_IMPORTER_LAYERS_LAYER_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "importer/constants/constant_evaluator.h"
#include "importer/constants/constant_tensor.h"
#include "importer/graph/op_graph.h"
#include "importer/layers/layer_elements.h"
#include "importer/layers/parameter_view.h"
#include "importer/layers/value_view.h"
#include "proto/job.pb.h"

namespace adjoin {

// A tensor of the weights' file.
struct ImportedWeight {
  std::string name;              // in the job: "conv1.weight"
  std::string source;            // in the archive; "": `constant` or, without one, a whole number, 0
  bool has_one_element = false;  // a number in the archive, which jobs keep as a list of one
  std::optional<ConstantTensor> constant = std::nullopt;  // what the program computes of no input
};

// A parameter that a layer takes: its role there, and its value in the graph. A value of "" is left out.
using LayerParameter = std::pair<std::string, std::string>;

// Values that are read with the batch in front, by itself. Where they have it elsewhere, in the same place, the result
// has it there again.
struct AlignedInputs {
  std::vector<std::string> sources;  // layers or fields
  bool of_parameters = false;        // none of the values has a batch: what layers read has one more dim, in front
  bool moved = false;                // the batch was elsewhere:
  size_t batch_dim = 0;
  std::pair<int64_t, int64_t> beside = {1, 1};  // ValueView::BesideBatch

  // Where a dim of the values is in what the layer reads; -1 for the one with the batch.
  int64_t DimOf(int64_t dim) const;
  // What a layer returns of which the value is `shape`, and the value of it.
  absl::StatusOr<ValueView> ResultOf(const std::vector<int64_t>& shape, int64_t batch) const;
  // `view`, a value with the batch in front, with it where it was: `shape`.
  absl::StatusOr<ValueView> Restored(const ValueView& view, const std::vector<int64_t>& shape) const;
};

class LayerBuilder {
 public:
  // `fields`: what the graph's inputs are called in the job. `graph` and `constants` outlive the builder.
  LayerBuilder(const OpGraph& graph, ConstantEvaluator& constants, const std::vector<std::string>& fields);

  // -- For rules. `node` is the operator at hand.
  // The extents of a value. Errors: kInvalidArgument for a value of a type that is not supported.
  absl::StatusOr<std::vector<int64_t>> Shape(const std::string& value) const;
  bool SameType(const std::string& a, const std::string& b) const;  // false where one is not known
  bool IsFloat(const std::string& value) const;                     // likewise
  bool IsParameter(const std::string& value) const { return graph_.parameters.count(value) > 0; }
  // True for a layer's output and for a field, as they are or in another shape or order.
  bool IsLayer(const std::string& value) const { return values_.count(TensorOf(value)) > 0; }

  // Appends a layer that computes the node's first output from these values and parameters. Its name is the path of a
  // module of PyTorch's own, the prefix of its parameters, or else the module's path with the operator. Errors:
  // kInvalidArgument: an input that is a parameter, or that no layer computes.
  absl::Status Add(const OpNode& node, Layer layer, const std::vector<std::string>& inputs,
                   const std::vector<LayerParameter>& parameters = {});
  // Likewise, of a layer that computes each element of its result of the same element of one value.
  absl::Status AddElementWise(const OpNode& node, Layer layer, const std::string& value,
                              const std::vector<LayerParameter>& parameters = {});
  // Several such, one after the other.
  absl::Status AddElementWise(const OpNode& node, const std::vector<Layer>& functions, const std::string& value);
  // The steps of Add, for layers that are several, or that read their values in another order. Errors: as Add.
  // Values of fewer dims are aligned at the last one, as in PyTorch.
  absl::StatusOr<AlignedInputs> Align(const std::vector<std::string>& values);
  // The same of values in other shapes or orders.
  absl::StatusOr<AlignedInputs> Align(const std::vector<std::pair<std::string, ValueView>>& values);
  absl::StatusOr<std::string> Append(const OpNode& node, Layer layer, const std::vector<std::string>& sources,
                                     const std::vector<LayerParameter>& parameters = {});
  absl::Status SetResult(const OpNode& node, const std::string& source, const AlignedInputs& inputs);
  absl::Status SetResult(const OpNode& node, const std::string& source, ValueView view);

  // -- Functions of parameters.
  // The operator as it reads layers that return its parameters, each a value of its own that has no batch and another
  // name. Errors: kInvalidArgument: it has none of them; a part of a parameter that no layer returns; no layer or field
  // before it.
  enum class Lifts {
    kParameters,  // but for those that it calls weight and bias
    kConstants,   // also what is known at import
    kWeights,     // all
  };
  absl::StatusOr<OpNode> WithLayersOfParameters(const OpNode& node, Lifts lifts);
  // Names of values that the program does not have: a result in between, of the type of `like`; a value or a matrix
  // that is a parameter, in another order.
  void Declare(const std::string& name, std::vector<int64_t> shape, const std::string& like);
  absl::StatusOr<std::string> Reordered(const std::string& value, const std::vector<int64_t>& order);
  // True where `value` follows of parameters alone.
  bool IsOfParameters(const std::string& value) const {
    return IsLayer(value) && ValueOf(value).IsShapeKnown() && !ValueOf(value).view.HasBatch();
  }

  // The node's first output is a value in another shape, or in another order.
  absl::StatusOr<ValueView> ViewOf(const std::string& value) const;
  absl::Status SetView(const OpNode& node, const std::string& value, ValueView view);
  // Elements begin, begin + step, ... of one dim, `count` of them; the dim goes where `drops`, which has one element
  // then. Errors: kInvalidArgument: samples of the batch.
  struct Range {
    size_t dim = 0;
    int64_t begin = 0, count = 1, step = 1;
    bool drops = false;
  };
  absl::Status AddRange(const OpNode& node, const std::string& value, const Range& range);

  // A parameter, a buffer, or a part of one; null where `value` is none.
  const ParameterView* ParameterOf(const std::string& value) const;
  // The parameter of which `value` is all, perhaps in another shape or order. Errors: it is none.
  absl::StatusOr<std::string> WholeParameter(const std::string& value) const;
  absl::Status SetParameterView(const OpNode& node, const std::string& value, ParameterView view);
  // The node's first output is `value` combined with a parameter, as parameter.combine says ("add", "multiply").
  absl::Status AddParameter(const OpNode& node, const std::string& value, const std::string& parameter,
                            const std::string& combine);

  // -- What is known at import. Errors of all: as ConstantEvaluator::Evaluate.
  bool IsConstant(const std::string& value) const { return constants_.IsConstant(value); }
  absl::StatusOr<ConstantTensor> ConstantOf(const std::string& value) const { return constants_.Evaluate(value); }
  // The number that all elements are; none where they differ.
  absl::StatusOr<std::optional<double>> NumberOf(const std::string& value) const;
  // The node's first output is `value` combined with a constant that is no larger, as parameter.combine says.
  absl::Status AddConstant(const OpNode& node, const std::string& value, ConstantTensor constant,
                           const std::string& combine);
  // A layer that returns a constant for each sample of `beside`, a layer or field; its dim 0 is 1.
  absl::StatusOr<std::string> ConstantPerSample(const OpNode& node, ConstantTensor constant, const std::string& beside);
  // The parameter, with the batch as its dim 0, beside a layer or field.
  absl::StatusOr<std::string> PerSample(const std::string& parameter, const ParameterView& view,
                                        const std::string& beside);
  int64_t Batch() const;  // kAnyExtent where it is not fixed

  // Whether the node's first output is the tensor that it was given: a later change in place changes both, only one, or
  // PyTorch decides when it runs, so that what is not changed must not be read afterwards.
  enum class Shares { kAlways, kNever, kPerhaps };
  // Elements of one dim, in the order of `indices`.
  struct Selection {
    size_t dim = 0;
    std::vector<int64_t> indices;
  };
  static constexpr int64_t kMostIndices = 65536;  // of one
  // The node's first output is what these select of `value`, one after the other; it may have another shape.
  absl::Status AddSelections(const OpNode& node, const std::string& value, const std::vector<Selection>& selections);

  // The elements that a slice has, which is what `node` changes in place, become a number in what it is a slice of: a
  // layer's output, or a copy of a parameter. Errors: kInvalidArgument: it is no slice, or of a parameter itself.
  absl::Status FillSlice(const OpNode& node, double number);

  // The node's first output is what `value` is; no layer is needed.
  absl::Status Alias(const OpNode& node, const std::string& value, Shares shares = Shares::kAlways);
  // The node's first output shares its elements with `value` where PyTorch says so.
  void ShareElements(const OpNode& node, const std::string& value);
  // The last layer also has a whole number that no operator reads, in PyTorch beside the parameter `sibling`; 0 where
  // the archive lacks it.
  void AddUnreadBuffer(const std::string& role, const std::string& sibling);
  // True where a layer has the parameter already.
  bool Owned(const std::string& value) const;
  // True where `value` depends on parameters that are trained, so that gradients flow through it.
  bool Trained(const std::string& value) const;
  // The node's outputs have no layer, and nothing is known of them.
  void Forget(const OpNode& node);

  // What a rule that fails has added so far does not stay: Undo(Here() before it, its node).
  struct Mark {
    size_t layers = 0, weights = 0;
    int64_t constant_elements = 0;
    int next_constant = 0;
    std::string beside;
  };
  Mark Here() const { return {layers_.size(), weights_.size(), constant_elements_, next_constant_, beside_}; }
  void Undo(const Mark& mark, const OpNode& node);

  // Errors: kInvalidArgument: where some elements of `value` become `number` by products and sums, others than in
  // PyTorch would follow, since some may not be finite.
  absl::Status CheckReplaceable(const std::string& value, double number);

  // -- Results.
  // The layer or field that a value is, as it is: changes of its shape become layers. A parameter becomes one for each
  // sample of `beside`, a layer or field; "": of the last layer. Errors: as Add.
  absl::StatusOr<std::string> SourceOf(const std::string& value, const std::string& beside = "");
  const std::vector<Layer>& layers() const { return layers_; }
  const std::vector<ImportedWeight>& weights() const { return weights_; }
  // True where a value comes from a node that was forgotten.
  bool Forgotten(const std::string& value) const { return forgotten_.count(value) > 0; }

 private:
  struct Value {
    std::string source;  // a layer or field
    ValueView view;      // of its output
    // What the layers are called that change its shape and its order.
    std::string reshape_name, permute_name;
    // False: the program does not tell it. Then only a layer without a shape of its own can read it.
    bool IsShapeKnown() const { return !view.base().empty(); }
  };
  struct OwnParameterValue {
    std::string value;  // of the graph
    ParameterView view;
    std::string name;  // what a layer of it is called
  };

  absl::Status CheckReadable(const std::string& value) const;
  // What a layer computes. Only of values that are readable.
  const Value& ValueOf(const std::string& value) const { return values_.at(TensorOf(value)); }
  absl::StatusOr<std::string> Materialize(Value value);
  // `shape`: of its output.
  std::string StepLayer(const std::string& source, Layer layer, const std::string& name,
                        const std::vector<int64_t>& shape);
  absl::StatusOr<std::string> ParameterPerSample(const OwnParameterValue& own, const std::string& beside);
  std::string BaseOf(const std::string& value) const;
  std::string TensorOf(const std::string& value) const;
  // What a layer that only changes a shape is called.
  std::string HintOf(const OpNode& node) const;
  std::string NameOf(const OpNode& node, const std::vector<LayerParameter>& parameters);
  std::string Unique(std::string name);
  absl::Status TakeParameters(const std::vector<LayerParameter>& parameters, Layer& layer);
  absl::Status CheckShared(const Layer& layer, const std::string& owner) const;
  absl::StatusOr<bool> AreFrozen(const Layer& layer, const std::vector<LayerParameter>& parameters) const;
  absl::Status Bind(const OpNode& node, Value value);
  // Errors: kInvalidArgument: the program says that the node's first output has another shape.
  absl::Status CheckShape(const OpNode& node, const std::vector<int64_t>& shape) const;
  absl::Status TakeConstant(ConstantTensor constant, Layer& layer);
  const TensorInfo* InfoOf(const std::string& value) const;  // null where the program has none
  absl::StatusOr<DimInBase> DimOfLayer(size_t dim, bool by_itself, Value& value);
  // Elements of one dim of a value.
  absl::Status Select(const OpNode& node, size_t dim, const std::vector<int64_t>& indices, Value& value);
  absl::StatusOr<std::string> LayerOfParameter(const OpNode& node, const OwnParameterValue& own);
  absl::StatusOr<std::string> LayerOfConstant(const OpNode& node, ConstantTensor constant);
  static void WriteOwn(const ParameterView& view, bool is_buffer, const std::string& combine, OwnParameter* own);
  void SetLifted(const std::string& name, const std::string& source, ValueView view, DType dtype);
  absl::Status CheckUnchanged(const OwnParameterValue& own) const;

  const OpGraph& graph_;
  ConstantEvaluator& constants_;
  int64_t constant_elements_ = 0;                      // in weights_
  std::map<std::string, std::string> constant_owner_;  // of a constant's weight: its layer
  std::vector<Layer> layers_;
  std::vector<ImportedWeight> weights_;
  std::set<std::string> names_;                            // of layers and fields
  std::map<std::string, int> next_suffix_;                 // by a name that is taken
  std::map<std::string, size_t> index_;                    // of a layer in layers_
  std::map<std::string, std::vector<int64_t>> shapes_;     // of layers and fields
  std::set<std::string> trained_;                          // layers that depend on parameters that are trained
  std::set<std::string> parameter_names_;                  // in PyTorch
  std::map<std::string, Value> values_;                    // what layers and fields are, by TensorOf
  std::map<std::string, OwnParameterValue> own_;           // values that are parameters, or parts of them
  std::map<std::string, std::string> step_layers_;         // those that change shapes, by their input and what they do
  std::map<std::string, std::string> base_;                // of a value that is a view: the value that it views
  std::map<std::string, std::vector<std::string>> views_;  // the same read backwards, without those that are stale
  std::map<std::string, std::string> tensor_;  // of a value that is another under a second name: the first one
  std::map<std::string, std::string> owner_;   // of a parameter, by its name in PyTorch: the layer that has it
  std::set<std::string> stale_;                // tensors that changed in place by way of another view
  std::set<std::string> forgotten_;
  std::set<std::string> modules_with_parameters_;
  std::map<std::string, std::string> role_;                      // of a parameter that a layer has: as what, "weight"
  int next_constant_ = 0;                                        // in the name of a constant's weight
  std::map<std::string, std::pair<std::string, Range>> slices_;  // of a value: what it is a slice of
  std::map<std::string, std::string> lifted_from_;               // of a value in lifted_: that of the program
  std::map<std::string, std::vector<std::string>> own_views_;    // of a value in own_: those that were made of it
  std::map<std::string, TensorInfo> lifted_;                     // values that WithLayersOfParameters made
  std::map<std::string, std::string> parameter_layers_;          // of a parameter's part: the layer that returns it
  std::vector<LayerElements> elements_;                          // of the first ones of layers_
  std::map<std::string, LayerElements> constant_kinds_;          // of constants that layers have, by the layer
  std::map<std::string, std::string> buffer_of_;                 // of layers that have a buffer: its value
  std::string beside_;  // the last layer or field of floating-point numbers that has a batch
};

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_LAYERS_LAYER_BUILDER_H_
