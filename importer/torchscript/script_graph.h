// The graph that the inliner writes: values of their own names, and operators whose results' extents are inferred.
#ifndef ADJOIN_IMPORTER_TORCHSCRIPT_SCRIPT_GRAPH_H_
#define ADJOIN_IMPORTER_TORCHSCRIPT_SCRIPT_GRAPH_H_

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "importer/graph/op_graph.h"
#include "importer/torchscript/script_archive.h"
#include "importer/torchscript/script_value.h"

namespace adjoin {

// An operator as a method calls it.
struct ScriptCall {
  std::string op;      // "add_"
  std::string target;  // of what is not ATen's: "torch.ops.mine.add"; "": ATen's
  std::vector<ScriptValue> places;
  std::vector<std::pair<std::string, ScriptValue>> names;
  size_t results = 1;  // how many the method takes, where nothing else tells; 0: it only changes something
};

// What an operator returns: one tensor, a tuple of them, or a list, whose length its extents tell where they are known.
struct ScriptResults {
  size_t count = 1;
  bool list = false;
};

// The modules in which an operator runs: the innermost one, and how many they are.
struct OpModules {
  std::shared_ptr<const OpModule> innermost;
  size_t depth = 0;
};

class ScriptGraph {
 public:
  explicit ScriptGraph(const ScriptArchive& archive);

  const OpGraph& graph() const { return graph_; }
  OpGraph& graph() { return graph_; }
  // The value of a tensor of the archive.
  static std::string ValueOfTensor(const std::string& name) { return name.empty() ? name : "self." + name; }
  // A name that no value has: "x", "x_2"; of a long name its beginning.
  std::string NewValue(const std::string& name);

  // Appends the operator, which runs in these modules, and returns its result: a tensor, a tuple or a list.
  // Errors: kInvalidArgument: arguments that it does not have, or that do not fit each other; more than kMaxNodes
  // operators, kMaxOutputs results or kMaxModules modules.
  absl::StatusOr<ScriptValue> Add(ScriptCall call, const OpModules& modules);

 private:
  absl::Status Place(ScriptValue& value, const OpModules& modules);
  absl::Status SetArguments(ScriptCall& call, const OpModules& modules, OpNode& node, ScriptResults& results);
  absl::StatusOr<ScriptValue> Append(OpNode node, const ScriptResults& results, const OpModules& modules);

  OpGraph graph_;
  std::map<std::string, int> used_;  // names of values, and the last number that each was given
};

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_TORCHSCRIPT_SCRIPT_GRAPH_H_
