#include "tests/verify/random_network.h"

#include "absl/strings/str_cat.h"
#include "tests/verify/network_writer.h"
#include "tests/verify/random_layers.h"
#include "tests/verify/random_losses.h"
#include "tests/vs_serial/random_jobs.h"

namespace adjoin {
namespace {

// A loss scale may skip the first step, whose gradient dampening would not damp: jobs have one of them only.
std::string Optimizer(RandomJobs& random, bool scaled, std::string& kind) {
  const auto some = [&](const char* field, double value) {
    return random.OneIn(2) ? absl::StrCat(" ", field, ": ", value) : "";
  };
  const auto flag = [&](const char* field) { return random.OneIn(2) ? absl::StrCat(" ", field, ": true") : ""; };
  kind = random.Of<std::string>({"sgd", "sgd", "adam", "rmsprop", "adagrad"});
  std::string fields;
  if (kind == "sgd") {
    fields = random.OneIn(3) ? " momentum: 0.9 nesterov: true"
                             : some("momentum", 0.5) + (scaled ? "" : some("dampening", 0.25));
  } else if (kind == "adam") {
    fields = some("beta1", 0.8) + some("beta2", 0.99) + some("eps", 1e-6) + flag("decoupled") + flag("amsgrad");
  } else if (kind == "rmsprop") {
    fields = some("alpha", 0.9) + some("eps", 1e-6) + some("momentum", 0.5) + flag("centered");
  } else {
    fields = some("lr_decay", 0.1) + some("initial", 0.5) + some("eps", 1e-6);
  }
  return absl::StrCat("optimizer { ", kind, " { lr: 0.05", fields, some("weight_decay", 0.01), " } }");
}

std::string Precision(RandomJobs& random, NetworkWriter& writer) {
  const std::string compute = random.Of<std::string>({"float64", "float32", "bfloat16"});
  writer.Drawn("type " + compute);
  std::string scale;
  if (random.OneIn(3)) {
    scale = " loss_scale: 1024";
    writer.Drawn("loss_scale");
  }
  return absl::StrCat("precision { compute: \"", compute, "\" params: \"", compute == "bfloat16" ? "float32" : compute,
                      "\"", scale, " }\n");
}

// One job in three has weights. Drawn apart, so that all else of a network is as without.
std::string RankWeights(uint64_t seed, int64_t ranks, NetworkWriter& writer) {
  RandomJobs random(seed + 1'000'000'007);
  if (ranks == 1 || !random.OneIn(3)) return "";
  writer.Drawn("rank_weight");
  std::string numbers;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    absl::StrAppend(&numbers, rank > 0 ? ", " : "", random.Of<std::string>({"1", "1", "1.5", "2", "3", "0.25", "40"}));
  }
  return absl::StrCat("rank_weight: [", numbers, "]\n");
}

RandomNetwork Draw(uint64_t seed, bool cut) {
  RandomJobs random(seed);
  const int64_t ranks = cut ? random.Of<int64_t>({1, 2, 3, 4, 4, 6, 8}) : 1;
  const int64_t parts = random.OneIn(3) ? random.Between(2, 3) : 1;  // micro-batches
  const int64_t rows = random.Between(parts > 1 ? 1 : 2, 4);
  NetworkWriter writer(random, ranks, rows, cut);
  RandomLayers layers(random, writer, /*microbatches=*/parts > 1);
  layers.Begin();
  const int64_t count = random.Between(2, 8);
  for (int64_t i = 0; i < count; ++i) layers.AddAny();
  layers.End();
  AddLosses(random, writer, layers, /*microbatches=*/parts > 1);
  RandomNetwork network;

  const std::string precision = Precision(random, writer);
  const std::string optimizer = Optimizer(random, writer.drawn().count("loss_scale") > 0, network.optimizer);
  writer.Drawn("optimizer " + network.optimizer);
  if (parts > 1) writer.Drawn("microbatches");
  network.text = absl::StrCat("name: \"network\" kind: TRAIN ranks: ", ranks, " seed: ", seed % 1000 + 1, "\n",
                              RankWeights(seed, ranks, writer), precision, writer.layouts(), writer.layers(),
                              writer.losses(), "dataset {\n  name: \"data\"\n", writer.fields(), "}\n",
                              "train { dataset: \"data\" batch: ", rows * parts,
                              parts > 1 ? absl::StrCat(" microbatches: ", parts) : "",
                              " steps: 2 drop_last: true clip_norm: 1000 ", optimizer, " }\noutput_dir: \"out\"\n");
  network.drawn = writer.drawn();
  return network;
}

}  // namespace

RandomNetwork DrawNetwork(uint64_t seed) { return Draw(seed, /*cut=*/true); }

RandomNetwork DrawUncutNetwork(uint64_t seed) { return Draw(seed, /*cut=*/false); }

}  // namespace adjoin
