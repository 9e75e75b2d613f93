// A traced model as the importer's graph: the calls of its modules put into each other, in the order in which they run.
//
//   ADJOIN_ASSIGN_OR_RETURN(const OpGraph graph, InlineScript(*archive, {{{2, 3, 64, 64}, std::nullopt}}));
//
// Nothing is executed. A trace does not tell the extents of its tensors: they are inferred from those of the arguments
// and the weights (shape_inference.h), and size arithmetic becomes numbers.
#ifndef ADJOIN_IMPORTER_TORCHSCRIPT_SCRIPT_INLINER_H_
#define ADJOIN_IMPORTER_TORCHSCRIPT_SCRIPT_INLINER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "importer/graph/op_graph.h"
#include "importer/torchscript/example_input.h"
#include "importer/torchscript/script_archive.h"

namespace adjoin {

inline constexpr int64_t kMaxScriptSteps = 1000000;  // expressions that are evaluated, and values that they have
inline constexpr size_t kMaxScriptItems = 100000;    // of a list or tuple, with those in it

// Errors: kInvalidArgument: another number of examples than forward has arguments, or of other extents than the weights
// fit; a method with control flow, or that calls itself; more than the bounds above, or kMaxNodes operators; kDataLoss
// as ParseScript. All name the method's file and line.
absl::StatusOr<OpGraph> InlineScript(const ScriptArchive& archive, const std::vector<ExampleInput>& examples);

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_TORCHSCRIPT_SCRIPT_INLINER_H_
