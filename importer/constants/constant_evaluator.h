// What an exported program computes of no input: masks, positions, tables of rotary embeddings. Evaluated when a model
// is imported, so that a job needs no layer for it.
//
//   ConstantEvaluator constants(*archive, graph);
//   if (constants.IsConstant("triu")) {
//     ADJOIN_ASSIGN_OR_RETURN(const ConstantTensor mask, constants.Evaluate("triu"));
//   }
//
// A value is constant where everything that it is computed from is a number, a buffer that nothing changes, or a
// constant of the program; what depends on an argument of forward or on a parameter (also one that needs no gradient)
// is not. Each operator's result is rounded to its type, as PyTorch does. Operators run in the program's order, so that
// changes in place, also by way of views, are seen as PyTorch sees them.
//
// A program is data from outside: what is computed is bounded by ConstantLimits. Nothing is computed before the first
// Evaluate. One thread.
#ifndef ADJOIN_IMPORTER_CONSTANTS_CONSTANT_EVALUATOR_H_
#define ADJOIN_IMPORTER_CONSTANTS_CONSTANT_EVALUATOR_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "importer/archive/model_archive.h"
#include "importer/constants/constant_tensor.h"
#include "importer/graph/op_graph.h"

namespace adjoin {

class ConstantWorkspace;

struct ConstantLimits {
  int64_t elements = int64_t{1} << 24;  // of one constant
  int64_t bytes = int64_t{512} << 20;   // of all, as they are kept: 8 for an element
  int64_t nodes = 10000;                // operators that are evaluated
  int64_t work = int64_t{1} << 29;      // elements that all of them read and write
};

class ConstantEvaluator {
 public:
  // `archive` and `graph`, which is of its program, outlive the evaluator.
  ConstantEvaluator(const ModelArchive& archive, const OpGraph& graph, const ConstantLimits& limits = {});
  ~ConstantEvaluator();

  // Also true for a constant that Evaluate cannot compute, and for buffers themselves.
  bool IsConstant(const std::string& value) const { return constant_.count(value) > 0; }

  // The value at the end of the program.
  // Errors, with operator and module: kInvalidArgument: not a constant, an operator or a type that is not known, a
  // random number, a tensor that is changed in place after a layer has read it; kResourceExhausted: beyond the limits.
  absl::StatusOr<ConstantTensor> Evaluate(const std::string& value);

 private:
  void FindConstants();
  void FindBases();
  std::set<std::string> ReachedBases() const;
  void FindChanges();
  const std::string& BaseOf(const std::string& value) const;
  const absl::Status* FailureOf(const std::string& value) const;  // null: none
  void Run();
  absl::Status RunNode(const OpNode& node);
  absl::Status LoadBuffer(const std::string& value);

  const ModelArchive& archive_;
  const OpGraph& graph_;
  const ConstantLimits limits_;
  std::set<std::string> buffers_;               // values that are buffers or constants of the program
  std::set<std::string> constant_;              // values
  std::map<std::string, std::string> base_;     // of a value: one value for all that may have elements in common
  std::set<std::string> changed_late_;          // bases that a constant operator changes after a layer has read them
  std::map<std::string, absl::Status> failed_;  // by value
  std::map<std::string, absl::Status> failed_changes_;  // in place, by base
  std::unique_ptr<ConstantWorkspace> workspace_;
  bool has_run_ = false;
};

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_CONSTANTS_CONSTANT_EVALUATOR_H_
