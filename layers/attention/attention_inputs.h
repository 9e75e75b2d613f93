// What an attention reads: what attends and is attended to, and last what is added to the scores.
//
//   const int attended = AttendedInputs(spec.attention(), layer.input_size());   // 1, 2 or 3
//   if (spec.attention().score_bias()) bias = layer.input(attended);
#ifndef ADJOIN_LAYERS_ATTENTION_ATTENTION_INPUTS_H_
#define ADJOIN_LAYERS_ATTENTION_ATTENTION_INPUTS_H_

#include "proto/job.pb.h"

namespace adjoin {

// Whether queries, keys and values are made of the inputs; otherwise they are the inputs.
inline bool HasProjections(const Attention& spec) { return !spec.has_projections() || spec.projections(); }

// Without the bias of the scores: queries; keys; values.
inline int AttendedInputs(const Attention& spec, int inputs) { return inputs - (spec.score_bias() ? 1 : 0); }

}  // namespace adjoin

#endif  // ADJOIN_LAYERS_ATTENTION_ATTENTION_INPUTS_H_
