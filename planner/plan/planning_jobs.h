// Two networks of tensors that no rank could hold, on any number of ranks: jobs to measure planning with.
//
//   ParseSpec(CosmoFlowJob(4096), "cosmoflow.textproto")
#ifndef ADJOIN_PLANNER_PLAN_PLANNING_JOBS_H_
#define ADJOIN_PLANNER_PLAN_PLANNING_JOBS_H_

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace adjoin {

// How both cut: volumes over 4 x 4 x 4 ranks (of fewer than 64 ranks in two dims less), samples over the rest; what
// follows the convolutions is whole, samples over the first of the ranks. `ranks` is 4, or a multiple of 64.
struct CutOfVolumes {
  explicit CutOfVolumes(int ranks) : samples(std::max(1, ranks / 64)), spatial(ranks < 64 ? "4,1,1" : "4,4,4") {}
  int samples;
  std::string spatial;
  std::string Layouts() const {
    return absl::StrCat("layout { name: \"grid\" partition: [", samples, ",1,", spatial,
                        "] }\nlayout { name: \"samples\" partition: [", samples, ",1,1,1,1] }\n");
  }
  std::string End(const std::string& head, const std::string& shape) const {
    return absl::StrCat(
        "dataset { name: \"train\" field { name: \"image\" npy { path: \"i.npy\" } shape: ", shape,
        " } field { name: \"label\" npy { path: \"l.npy\" } shape: ", head,
        " } }\ntrain { dataset: \"train\" batch: ", 2 * samples,
        " drop_last: true steps: 10 optimizer { sgd { lr: 0.1 momentum: 0.9 } } }\noutput_dir: \"o\"\n");
  }
};

// LBANN's variant of CosmoFlow at 512^3: arXiv 2007.12856.
inline std::string CosmoFlowJob(int ranks) {
  const CutOfVolumes cut(ranks);
  std::string text = absl::StrCat("name: \"cosmoflow\" kind: TRAIN ranks: ", ranks, " seed: 1\n", cut.Layouts());
  const int channels[] = {16, 32, 64, 128, 256, 256, 256};
  for (int i = 0; i < 7; ++i) {
    absl::StrAppend(&text, "layer { name: \"conv", i, "\"", i == 0 ? " input: \"image\" x: \"grid\"" : "",
                    " conv { out_channels: ", channels[i], " window { kernel: 3 pad_lo: 1 } } }\n",
                    "layer { name: \"relu", i, "\" activation { fn: \"leaky_relu\" arg: 0.3 } }\n",
                    "layer { name: \"pool", i,
                    "\" pool { mode: \"avg\" window { kernel: 3 stride: 2 pad_lo: 1 } } }\n");
  }
  absl::StrAppend(&text, "layer { name: \"gather\" y: \"samples\" repartition {} }\n",
                  "layer { name: \"flat\" flatten {} }\n");
  for (const int features : {2048, 256, 4}) {
    absl::StrAppend(&text, "layer { name: \"fc", features, "\" linear { out_features: ", features, " } }\n",
                    "layer { name: \"fr", features, "\" activation { fn: \"tanh\" } }\n");
  }
  absl::StrAppend(&text, "loss { kind: \"mse\" input: \"fr4\" target: \"label\" }\n",
                  cut.End("[4]", "[4,512,512,512]"));
  return text;
}

// ResNet-50 of 3-D convolutions on 3 x 256^3: arXiv 1711.09577.
inline std::string ResNet3dJob(int ranks) {
  const CutOfVolumes cut(ranks);
  std::string text = absl::StrCat("name: \"resnet3d\" kind: TRAIN ranks: ", ranks, " seed: 1\n", cut.Layouts());
  const auto conv = [&text](const std::string& name, const std::string& input, int channels, int kernel, int stride,
                            const std::string& more) {
    absl::StrAppend(&text, "layer { name: \"", name, "\"", input.empty() ? "" : absl::StrCat(" input: \"", input, "\""),
                    more, " conv { out_channels: ", channels, " bias: false window { kernel: ", kernel,
                    " stride: ", stride, " pad_lo: ", kernel / 2, " } } }\nlayer { name: \"", name,
                    ".bn\" norm { kind: \"batch\" } }\n");
  };
  const auto relu = [&text](const std::string& name) {
    absl::StrAppend(&text, "layer { name: \"", name, "\" activation { fn: \"relu\" } }\n");
  };
  conv("conv1", "image", 64, 7, 2, " x: \"grid\"");
  relu("relu1");
  absl::StrAppend(&text, "layer { name: \"pool1\" pool { mode: \"max\" window { kernel: 3 stride: 2 pad_lo: 1 } } }\n");
  std::string input = "pool1";
  const int blocks[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage) {
    for (int block = 0; block < blocks[stage]; ++block) {
      const std::string at = absl::StrCat("l", stage, ".", block);
      const int channels = 64 << stage, stride = block == 0 && stage > 0 ? 2 : 1;
      conv(at + ".a", input, channels, 1, 1, "");
      relu(at + ".ar");
      conv(at + ".b", "", channels, 3, stride, "");
      relu(at + ".br");
      conv(at + ".c", "", 4 * channels, 1, 1, "");
      if (block == 0) conv(at + ".d", input, 4 * channels, 1, stride, "");
      absl::StrAppend(&text, "layer { name: \"", at, ".add\" input: [\"", at, ".c.bn\", \"",
                      block == 0 ? at + ".d.bn" : input, "\"] add {} }\n");
      relu(at + ".out");
      input = at + ".out";
    }
  }
  absl::StrAppend(&text, "layer { name: \"gather\" y: \"samples\" repartition {} }\n",
                  "layer { name: \"avg\" pool { mode: \"avg\" window { kernel: 8 } } }\n",
                  "layer { name: \"flat\" flatten {} }\nlayer { name: \"fc\" linear { out_features: 400 } }\n",
                  "loss { kind: \"mse\" input: \"fc\" target: \"label\" }\n", cut.End("[400]", "[3,256,256,256]"));
  return text;
}

}  // namespace adjoin

#endif  // ADJOIN_PLANNER_PLAN_PLANNING_JOBS_H_
