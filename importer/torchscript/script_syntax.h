// The text of a traced model's methods, as torch.jit.save writes it: a small part of Python, read into a tree.
//
//   ADJOIN_ASSIGN_OR_RETURN(const ScriptFile file, ParseScript(text, "model.pt: code/__torch__/net.py"));
//   const ScriptMethod& forward = file.classes.at("Net").methods.at("forward");
//   forward.body[0].targets;                     // {"weight"} of "weight = self.weight"
//
// A trace is straight: assignments, calls, one result. A method with an `if`, a loop or the like is scripted, and only
// its first such word is kept. Source of the format: torch/csrc/jit/serialization/python_print.cpp of PyTorch.
#ifndef ADJOIN_IMPORTER_TORCHSCRIPT_SCRIPT_SYNTAX_H_
#define ADJOIN_IMPORTER_TORCHSCRIPT_SCRIPT_SYNTAX_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace adjoin {

inline constexpr int64_t kMaxScriptBytes = 4 << 20;  // of one file
inline constexpr size_t kMaxScriptTokens = 500000;   // of one file
inline constexpr int kMaxScriptDepth = 100;          // of expressions in each other: brackets, dots, calls and signs

struct ScriptExpression {
  enum class Kind {
    kName,       // text: the name; also None, True and False
    kInt,        // number
    kFloat,      // real
    kText,       // text
    kAttribute,  // text: the name; items: of what
    kCall,       // items: what is called, then the arguments; names: those of the last arguments
    kIndex,      // items: what is indexed, then the index or indices
    kList,       // items
    kTuple,      // items
    kDict,       // items: keys and values in turn
    kNegative,   // items: one
  };
  Kind kind = Kind::kName;
  int line = 0;
  int height = 1;  // how many expressions it is deep, with itself
  int64_t number = 0;
  double real = 0;
  std::string text;
  std::vector<ScriptExpression> items;
  std::vector<std::string> names;
};

struct ScriptStatement {
  int line = 0;
  bool returns = false;
  bool unpacks = false;              // "a, = ...": a list or tuple of as many as `targets`
  std::vector<std::string> targets;  // empty: its value is not kept
  ScriptExpression value;
};

struct ScriptParameter {
  std::string name;
  std::string type;  // "Tensor", as it stands there; of "Tuple[Tensor, Tensor]" "Tuple"
};

struct ScriptMethod {
  int line = 0;
  std::vector<ScriptParameter> parameters;
  std::vector<ScriptStatement> body;
  // How many values a name has that a later statement takes apart: "_1 = torch.chunk(x, 2)", "a, b, = _1".
  std::map<std::string, size_t> unpacked;
  // What a trace does not have, such as "if", and its line; "" where there is none. The body is not whole then.
  std::string control;
  int control_line = 0;
};

struct ScriptClass {
  std::set<std::string> parameters, buffers;  // names of attributes
  std::map<std::string, ScriptMethod> methods;
};

struct ScriptFile {
  std::map<std::string, ScriptClass> classes;
  std::map<std::string, ScriptMethod> functions;
};

// Errors: kDataLoss, with `where` and the line: what PyTorch does not write, a definition that is there twice, or more
// than the bounds above.
absl::StatusOr<ScriptFile> ParseScript(absl::string_view text, const std::string& where);

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_TORCHSCRIPT_SCRIPT_SYNTAX_H_
