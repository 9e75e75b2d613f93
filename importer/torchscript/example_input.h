// What a model was traced with, as the command line gives it.
//
//   ADJOIN_ASSIGN_OR_RETURN(const ExampleInput tokens, ParseExample("2x16:int64"));
//   tokens.shape;     // {2, 16}
#ifndef ADJOIN_IMPORTER_TORCHSCRIPT_EXAMPLE_INPUT_H_
#define ADJOIN_IMPORTER_TORCHSCRIPT_EXAMPLE_INPUT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "primitives/geometry/dtype.h"

namespace adjoin {

struct ExampleInput {
  std::vector<int64_t> shape;  // with the batch
  std::optional<DType> dtype;  // none: that of the weights
};

// "2x3x64x64", "2x16:int64". Errors: kInvalidArgument.
absl::StatusOr<ExampleInput> ParseExample(absl::string_view text);

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_TORCHSCRIPT_EXAMPLE_INPUT_H_
