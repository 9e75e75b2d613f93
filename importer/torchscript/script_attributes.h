// What modules' attributes and the constants of methods are in an expression.
#ifndef ADJOIN_IMPORTER_TORCHSCRIPT_SCRIPT_ATTRIBUTES_H_
#define ADJOIN_IMPORTER_TORCHSCRIPT_SCRIPT_ATTRIBUTES_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "importer/archive/pickle_values.h"
#include "importer/torchscript/script_archive.h"
#include "importer/torchscript/script_value.h"

namespace adjoin {

// A value of archive.values(): a module, a tensor, a number, or a list of such.
ScriptValue AttributeValue(const ScriptArchive& archive, size_t index);

// What archive.Constant returned. Of a tensor without dims the number is known, where it is of float64, float32 or
// int64. Errors: as ModelArchive::Read.
absl::StatusOr<ScriptValue> ConstantValue(const ScriptArchive& archive, const PickleValue& constant);

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_TORCHSCRIPT_SCRIPT_ATTRIBUTES_H_
