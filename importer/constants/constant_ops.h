// The operators that can be computed when a model is imported: a function for each, in the tables of ops_*.cc.
//
//   const ConstantOp* op = FindConstantOp("arange");
//   ADJOIN_ASSIGN_OR_RETURN(std::vector<ConstantView> results, op->compute({node, graph, workspace}));
#ifndef ADJOIN_IMPORTER_CONSTANTS_CONSTANT_OPS_H_
#define ADJOIN_IMPORTER_CONSTANTS_CONSTANT_OPS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "importer/constants/constant_workspace.h"
#include "importer/graph/op_graph.h"
#include "primitives/geometry/dtype.h"

namespace adjoin {

// An argument that is a tensor or a number.
struct ConstantOperand {
  ConstantView view;
  bool number = false;  // then of no dims, and of float64, int64 or bool
};

// One operator and its arguments.
struct ConstantCall {
  const OpNode& node;
  const OpGraph& graph;
  ConstantWorkspace& workspace;

  // Errors: kInvalidArgument: the argument is left out, or not what is expected.
  absl::StatusOr<ConstantView> Tensor(const std::string& name) const;
  absl::StatusOr<std::vector<ConstantView>> Tensors(const std::string& name) const;
  absl::StatusOr<ConstantOperand> Operand(const std::string& name) const;
  bool IsNumber(const std::string& name) const;
  // What the program says of a result. Errors: kInvalidArgument: a type that is not supported, an extent that is not
  // fixed.
  absl::StatusOr<DType> Type(size_t output = 0) const;
  absl::StatusOr<std::vector<int64_t>> Shape(size_t output = 0) const;
  // The dim, from the first, of a tensor of `dims`. Errors: kInvalidArgument where it has none such.
  absl::StatusOr<int64_t> Dim(const std::string& name, int64_t otherwise, int64_t dims) const;
};

using ConstantResults = absl::StatusOr<std::vector<ConstantView>>;
ConstantResults OneResult(absl::StatusOr<ConstantView> view);

struct ConstantOp {
  ConstantResults (*compute)(const ConstantCall& call);
  // Its results may have elements in common with its first argument.
  bool view = false;
};
using ConstantOps = std::map<std::string, ConstantOp>;  // by OpNode::op

const ConstantOps& CreatingConstantOps();
const ConstantOps& PointwiseConstantOps();
const ConstantOps& ShapeConstantOps();
const ConstantOps& IndexConstantOps();
const ConstantOps& ReducingConstantOps();

// Null where there is none.
const ConstantOp* FindConstantOp(const std::string& op);
// Draws other numbers whenever it runs.
bool IsRandomOp(const std::string& op);

// The type in which PyTorch computes with these (importer/graph/type_promotion.h).
DType PromotedType(const std::vector<ConstantOperand>& operands);

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_CONSTANTS_CONSTANT_OPS_H_
