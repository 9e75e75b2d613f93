// A model as torch.export describes it: operators of ATen in the order in which they run.
//
//   ADJOIN_ASSIGN_OR_RETURN(OpGraph graph, ReadOpGraph(archive->program(), archive->path()));
//   for (const OpNode& node : graph.nodes) {
//     node.op;                            // "conv2d"; of an operator that changes its input in place, without the "_"
//     node.Tensor("input");               // "x": the name of a value in this graph
//     node.Ints("padding", {0, 0});       // what was given, or else the default
//     node.module;                        // "layer1.0.conv1"
//   }
//   graph.parameters.at("p_conv1_weight");   // "conv1.weight": its name in PyTorch's state_dict
//   graph.IsTrained("p_conv1_weight");       // true: neither a buffer nor a constant, and with a gradient
//
// Source of the format: torch/_export/serde/schema.py of PyTorch, major versions 5 to 8.
#ifndef ADJOIN_IMPORTER_GRAPH_OP_GRAPH_H_
#define ADJOIN_IMPORTER_GRAPH_OP_GRAPH_H_

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "primitives/geometry/dtype.h"

namespace adjoin {

inline constexpr size_t kMaxModules = 64;
inline constexpr size_t kMaxNodes = 20000;
inline constexpr size_t kMaxOutputs = 4096;    // of a node
inline constexpr size_t kMaxModelName = 1024;  // of a module or a parameter, in bytes
// The batch, where the program does not fix it.
inline constexpr int64_t kAnyExtent = -1;
// An extent that is computed from such ones. Two of them need not be equal.
inline constexpr int64_t kComputedExtent = std::numeric_limits<int64_t>::min();

struct OpArgument {
  // kOther: what cannot be read, such as a number that the program computes.
  enum class Kind { kNone, kTensors, kInts, kFloats, kBool, kText, kOther };
  Kind kind = Kind::kNone;
  bool list = false;                 // several of them, or one
  std::vector<std::string> tensors;  // names of values; "" in a list for one that is left out
  std::vector<int64_t> ints;         // also of kBool: 0 or 1
  std::vector<double> floats;
  std::string text;
};

struct OpModule {
  std::string path, type;  // "layer1.0.relu", "torch.nn.modules.activation.ReLU"
  // The one that it ran in; null of the outermost. The nodes of a trace share them: a stack of its own in each would be
  // gigabytes.
  std::shared_ptr<const OpModule> outer;
};

struct OpNode {
  std::string op, overload;  // "add", "Tensor"
  std::string target;        // the whole name, for messages: "torch.ops.aten.add_.Tensor"
  bool in_place = false;     // its first argument has the result's value afterwards
  std::map<std::string, OpArgument> arguments;
  std::vector<std::string> outputs;  // names of values; "" for one that nothing reads
  // The innermost module that it ran in, one of at most kMaxModules; null: the program does not tell.
  std::shared_ptr<const OpModule> innermost;
  std::string module, module_type;  // of that one

  // A tensor argument's value; "" where it was left out.
  std::string Tensor(const std::string& name) const;
  bool Has(const std::string& name) const;  // given, and not None
  // An argument that cannot be read and that the result depends on, beyond its shape; "" where there is none.
  std::string UnreadArgument() const;
  // The tensors that it changes.
  std::vector<std::string> Changed() const;
  // Numbers that were given; else `otherwise`. One number counts as a list of one.
  std::vector<int64_t> Ints(const std::string& name, std::vector<int64_t> otherwise = {}) const;
  std::vector<double> Floats(const std::string& name, std::vector<double> otherwise = {}) const;  // also of ints
  int64_t Int(const std::string& name, int64_t otherwise) const;
  double Float(const std::string& name, double otherwise) const;
  bool Bool(const std::string& name, bool otherwise) const;
  std::string Text(const std::string& name, const std::string& otherwise) const;
};

struct TensorInfo {
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;
};

struct OpGraph {
  std::vector<OpNode> nodes;
  std::map<std::string, TensorInfo> tensors;      // by value
  std::map<std::string, std::string> parameters;  // and buffers and constants: from a value to its name in PyTorch
  std::set<std::string> buffers;                  // those of `parameters` that are buffers or constants
  std::set<std::string> unsaved;                  // those of `buffers` that PyTorch's state_dict lacks
  std::set<std::string> changed_buffers;          // names of those that the program itself changes
  std::set<std::string> frozen;                   // parameters without a gradient (requires_grad=False)
  std::vector<std::string> inputs, outputs;       // values, in the order of forward's arguments and results

  // True for a parameter that has a gradient.
  bool IsTrained(const std::string& value) const {
    return parameters.count(value) > 0 && buffers.count(value) == 0 && frozen.count(value) == 0;
  }
};

// Errors: kInvalidArgument (another version of the format, control flow, an input that is no tensor, a value that is
// read before it is defined, or defined twice); kDataLoss (a
// program that lacks what every program has), with `path`.
absl::StatusOr<OpGraph> ReadOpGraph(const nlohmann::json& program, const std::string& path);

// Splits a target such as "torch.ops.aten.add_.Tensor" into the node's op, overload and in_place.
void SetTarget(std::string target, OpNode& node);

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_GRAPH_OP_GRAPH_H_
