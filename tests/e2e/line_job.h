// The smallest job that trains on two ranks: a line through random points. It needs no file.
#ifndef ADJOIN_TESTS_E2E_LINE_JOB_H_
#define ADJOIN_TESTS_E2E_LINE_JOB_H_

namespace adjoin {

inline constexpr char kLineJob[] = R"job(name: "line" kind: TRAIN ranks: 2 seed: 1
layout { name: "batch" partition: [2, 1] }
layer { name: "fc" input: "x" x: "batch" linear { out_features: 2 } }
loss { kind: "mse" input: "fc" target: "y" }
dataset { name: "train"
  field { name: "x" synthetic { kind: "normal" samples: 8 } shape: [3] }
  field { name: "y" synthetic { kind: "normal" samples: 8 } shape: [2] } }
train { dataset: "train" batch: 4 steps: 3 optimizer { sgd { lr: 0.1 } } }
output_dir: "models/line"
)job";

}  // namespace adjoin

#endif  // ADJOIN_TESTS_E2E_LINE_JOB_H_
