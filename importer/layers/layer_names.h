// What layers are called: names of modules and parameters in PyTorch, and texts that become names.
//
//   AsName("layer1.0.conv 1");                    // "layer1.0.conv_1"
//   PrefixOf("layer1.0.conv1.weight", "weight");  // "layer1.0.conv1"
#ifndef ADJOIN_IMPORTER_LAYERS_LAYER_NAMES_H_
#define ADJOIN_IMPORTER_LAYERS_LAYER_NAMES_H_

#include <string>

#include "absl/strings/string_view.h"
#include "importer/graph/op_graph.h"

namespace adjoin {

// True where a layer or a parameter may be called so: letters, digits, '-', '_' and '.'.
bool IsName(absl::string_view text);

// "layer1.0.relu" from any text: '_' stands for other characters.
std::string AsName(absl::string_view text);

// "conv1" of "conv1.weight"; "" where the name does not end with the role.
std::string PrefixOf(absl::string_view name, absl::string_view role);

// True for a module of PyTorch's own that computes one thing, so that its path names this.
bool IsLeaf(const OpNode& node);

// The operator with its module before it: "layer1.0.relu".
std::string OpName(const OpNode& node);

}  // namespace adjoin

#endif  // ADJOIN_IMPORTER_LAYERS_LAYER_NAMES_H_
