// What a layer is called by rules, builders and messages.
#ifndef ADJOIN_LAYERS_RULES_LAYER_KIND_H_
#define ADJOIN_LAYERS_RULES_LAYER_KIND_H_

#include <string>

#include "proto/job.pb.h"

namespace adjoin {

// "conv", "flatten", ...: the field of Layer.op that is set, or Custom.type of a custom layer; empty where none is.
std::string KindOf(const Layer& layer);

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_RULES_LAYER_KIND_H_
