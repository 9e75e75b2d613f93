// How each operator of ATen becomes a layer.
//
//   const OpRule* rule = FindOpRule("conv2d");
//   absl::Status status = (*rule)(node, builder);    // adds a layer to `builder`
//
// A new operator is a function and a line in the table of one of rules_*.cc; docs/import.md lists them.
#ifndef ADJOIN_IMPORTER_LAYERS_OP_RULES_H_
#define ADJOIN_IMPORTER_LAYERS_OP_RULES_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "importer/graph/op_graph.h"
#include "importer/layers/layer_builder.h"
#include "proto/job.pb.h"

namespace adjoin {

// Adds what computes `node`. Errors: kInvalidArgument, for arguments that no layer has ("groups must be 1").
using OpRule = absl::Status (*)(const OpNode& node, LayerBuilder& builder);
using OpRules = std::map<std::string, OpRule>;  // by OpNode::op

// Rules: a layer that reads the last `last` dims of "input", each of the others for itself: the batch may be any of
// those.
absl::Status AddOverLastDims(const OpNode& node, Layer layer, size_t last, LayerBuilder& builder,
                             const std::vector<LayerParameter>& parameters);

// A linear layer whose weight or bias is a function of parameters.
absl::Status LinearOfComputed(const OpNode& node, LayerBuilder& builder);

const OpRules& ArithmeticRules();
const OpRules& ConvolutionRules();
const OpRules& NormRules();
const OpRules& PointwiseRules();
const OpRules& PoolRules();
const OpRules& ProductRules();
const OpRules& ReduceRules();
const OpRules& ShapeRules();
const OpRules& SliceRules();

// All of these.
std::vector<const OpRules*> AllOpRules();
// Null where there is none.
const OpRule* FindOpRule(const std::string& op);
// True for operators whose result never has elements in common with an argument, as a view has.
bool ReturnsNew(const std::string& op);
// What could stand for an operator that has no rule: "multiply, for the product of two layers' outputs". "" where
// nothing is near.
std::string NearestLayer(const std::string& op);

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_LAYERS_OP_RULES_H_
