// Jobs for the planner's tests.
#ifndef ADJOIN_PLANNER_SPEC_SPEC_FIXTURES_H_
#define ADJOIN_PLANNER_SPEC_SPEC_FIXTURES_H_

#include <string>

namespace adjoin {

// A job with the given layouts and layers (text format, from line 2 on), a data set "train" with images of `shape` and
// labels, and one loss on the layer `prediction`.
inline std::string JobText(int ranks, const std::string& network, const std::string& shape,
                           const std::string& prediction) {
  return "name: \"job\" kind: TRAIN ranks: " + std::to_string(ranks) + " seed: 1\n" + network +
         "\nloss { kind: \"cross_entropy\" input: \"" + prediction + "\" target: \"label\" }\n" +
         "dataset { name: \"train\" field { name: \"image\" idx { path: \"i\" } shape: " + shape +
         " } field { name: \"label\" idx { path: \"l\" } dtype: \"int64\" } }\n" +
         "train { dataset: \"train\" batch: 8 epochs: 1 optimizer { sgd { lr: 0.1 } } }\n";
}

// LeNet-5 with feature maps cut 2x2 and linear layers over 2x2 ranks; tests replace words of it.
inline constexpr char kLeNet[] = R"(name: "lenet5-spatial" kind: TRAIN ranks: 4 seed: 1
layout { name: "grid" partition: [1,1,2,2] }
layout { name: "chan" partition: [1,2,1,1] rank: [0,1] }
layout { name: "row"  partition: [1,2] rank: [0,1] }
layout { name: "col"  partition: [1,2] rank: [0,2] }
layout { name: "w2x2" partition: [2,2] }
layer { name: "conv1" input: "image" x: "grid" home: OWNER conv { out_channels: 6 window { kernel: 5 pad_lo: 2 } } }
layer { name: "relu1" activation { fn: "relu" } }
layer { name: "pool1" pool { mode: "max" window { kernel: 2 stride: 2 } } }
layer { name: "conv2" home: OWNER conv { out_channels: 16 window { kernel: 5 } } }
layer { name: "relu2" activation { fn: "relu" } }
layer { name: "pool2" pool { mode: "max" window { kernel: 2 stride: 2 } } }
layer { name: "to_chan" y: "chan" repartition {} }
layer { name: "flat" flatten { arg: 1 } }
layer { name: "fc1" x: "row" w: "w2x2" y: "col" linear { out_features: 120 } }
layer { name: "relu3" activation { fn: "relu" } }
layer { name: "fc2" x: "row" w: "w2x2" y: "col" linear { out_features: 84 } }
layer { name: "relu4" activation { fn: "relu" } }
layer { name: "fc3" x: "row" w: "w2x2" y: "col" linear { out_features: 10 } }
loss { kind: "cross_entropy" input: "fc3" target: "label" }
dataset { name: "train" shuffle: true
  field { name: "image" idx { path: "train-images.idx.gz" } shape: [1,28,28] scale: 0.0039 mean: 0.1307 std: 0.3081 }
  field { name: "label" idx { path: "train-labels.idx.gz" } dtype: "int64" } }
dataset { name: "test"
  field { name: "image" idx { path: "test-images.idx.gz" } shape: [1,28,28] scale: 0.0039 mean: 0.1307 std: 0.3081 }
  field { name: "label" idx { path: "test-labels.idx.gz" } dtype: "int64" } }
train { dataset: "train" batch: 64 epochs: 8 drop_last: true optimizer { sgd { lr: 0.01 momentum: 0.9 } } }
evaluate { dataset: "test" metric: "accuracy" }
output_dir: "lenet5-spatial"
)";

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_SPEC_SPEC_FIXTURES_H_
