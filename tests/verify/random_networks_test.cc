// Networks drawn at random from all that a job can have (random_network.h): none is refused, `verify` finds no
// difference from serial LibTorch in any, and as a whole job, with recomputation, micro-batches and a loss scale, each
// is what it is on one rank without them.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/testing/test_seed.h"
#include "layers/builtin/builtin_layers.h"
#include "planner/spec/spec_parser.h"
#include "tests/verify/random_network.h"
#include "tests/verify/serial_difference.h"

#ifndef ADJOIN_NETWORKS
#define ADJOIN_NETWORKS 48
#endif

namespace adjoin {
namespace {

constexpr int kMostShown = 12;

// "" where the network is as it should be.
std::string WrongWith(const RandomNetwork& network, uint64_t seed) {
  const auto parsed = ParseSpec(network.text, "network.textproto");
  if (!parsed.ok()) return parsed.status().ToString();
  return DifferenceFromSerial(*parsed, seed);
}

// Everything that a network can have; a new kind of layer gets its case in random_layers.cc.
std::set<std::string> All() {
  std::set<std::string> all;
  for (const std::string& kind : BuiltinLayers().Kinds()) all.insert("layer " + kind);
  for (const char* loss : {"cross_entropy", "nll", "mse", "l1", "huber", "smooth_l1", "bce", "bce_with_logits",
                           "poisson_nll", "gaussian_nll", "kl_div", "dice", "cosine"}) {
    all.insert(absl::StrCat("loss ", loss));
  }
  all.insert({"layer transformer",
              "cross_entropy of probabilities",
              "attention of 2",
              "attention of 3",
              "attention without projections",
              "a bias of scores",
              "optimizer sgd",
              "optimizer adam",
              "optimizer rmsprop",
              "optimizer adagrad",
              "home OWNER",
              "home REPLICATED",
              "home SHARDED",
              "frozen",
              "recompute",
              "microbatches",
              "rank_weight",
              "loss_scale",
              "type float64",
              "type float32",
              "type bfloat16",
              "w of conv",
              "w of linear",
              "w of attention",
              "w of window_attention",
              "w of transformer",
              "the table of a linear layer",
              "the table of an embedding"});
  for (const char* kind : {"activation", "attention", "conv", "embedding", "linear", "norm", "position", "transformer",
                           "window_attention"}) {
    all.insert(absl::StrCat("weights_of ", kind));
  }
  return all;
}

TEST(RandomNetworksTest, RunAndEqualSerialPyTorch) {
  const uint64_t first = TestSeed(1000);
  std::map<std::string, int> wrong;
  std::set<std::string> never = All();
  for (uint64_t seed = first; seed < first + ADJOIN_NETWORKS; ++seed) {
    const RandomNetwork network = DrawNetwork(seed);
    for (const std::string& drawn : network.drawn) never.erase(drawn);
    const std::string message = WrongWith(network, seed);
    if (message.empty()) continue;
    if (++wrong[KindOfMessage(message)] > 1 || wrong.size() > kMostShown) continue;
    ADD_FAILURE() << message << "\nADJOIN_TEST_SEED=" << seed << "\n" << network.text;
  }
  for (const auto& [kind, count] : wrong) ADD_FAILURE() << count << " of " << ADJOIN_NETWORKS << ": " << kind;
  if (ADJOIN_NETWORKS < 1000) return;
  for (const std::string& what : never) ADD_FAILURE() << "no network has " << what;
}

}  // namespace
}  // namespace adjoin
