// Networks drawn at random from all that a training job can have: every kind of layer, loss and optimizer, layouts of
// every kind over any ranks, weights of ranks, homes of parameters, weights that layers share, recomputation,
// micro-batches, number types.
//
//   RandomNetwork network = DrawNetwork(seed);
//   ParseSpec(network.text, "network");       // a job that Adjoin and PyTorch both take
//
// What PyTorch would refuse is not drawn, nor what has several right answers: a maximum of elements that are equal but
// for rounding.
#ifndef ADJOIN_TESTS_VERIFY_RANDOM_NETWORK_H_
#define ADJOIN_TESTS_VERIFY_RANDOM_NETWORK_H_

#include <cstdint>
#include <set>
#include <string>

namespace adjoin {

struct RandomNetwork {
  std::string text;
  std::string optimizer;        // "sgd", "adam", "rmsprop", "adagrad"
  std::set<std::string> drawn;  // "layer conv", "loss bce", "optimizer adam", "home OWNER", "microbatches", ...
};

RandomNetwork DrawNetwork(uint64_t seed);
// A network of which nothing says how it is cut: a job of one rank without layouts and homes.
RandomNetwork DrawUncutNetwork(uint64_t seed);

}  // namespace adjoin

#endif  // ADJOIN_TESTS_VERIFY_RANDOM_NETWORK_H_
