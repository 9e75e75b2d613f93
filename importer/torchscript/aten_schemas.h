// What the arguments of ATen's operators are called, which a trace gives by their places.
//
//   for (const AtenSchema& schema : AtenSchemasOf("add")) {
//     schema.overload;              // "Scalar", then "Tensor"
//     schema.arguments[1].name;     // "other"
//   }
#ifndef ADJOIN_IMPORTER_TORCHSCRIPT_ATEN_SCHEMAS_H_
#define ADJOIN_IMPORTER_TORCHSCRIPT_ATEN_SCHEMAS_H_

#include <cstddef>
#include <string>
#include <vector>

namespace adjoin {

struct AtenArgument {
  std::string type;  // "Tensor", "Tensor?", "int[2]", "Scalar?", as ATen writes it
  std::string name;
  bool has_default = false;
  bool keyword_only = false;
};

struct AtenSchema {
  std::string overload;  // "Tensor"; of the only one "default"
  std::vector<AtenArgument> arguments;
  size_t results = 1;  // 0: a list of tensors
};

// Those of an operator without the "_" of what works in place; empty where none of them is known.
const std::vector<AtenSchema>& AtenSchemasOf(const std::string& op);

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_TORCHSCRIPT_ATEN_SCHEMAS_H_
