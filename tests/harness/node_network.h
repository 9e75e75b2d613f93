// Nodes on a network of their own: a namespace for each, whose interface is "data0", behind a bridge with an address of
// the test's own.
//
//   NodeNetwork network;
//   if (!network.Make(/*nodes=*/2)) GTEST_SKIP() << NodeNetwork::kNeeds;
//   ADJOIN_ASSIGN_OR_RETURN(LocalClusterOptions options, network.ClusterOptions(folder));
//   ... LocalCluster::Start(/*nodes=*/2, slots, options)
//
// What is made is removed with the object.
#ifndef ADJOIN_TESTS_HARNESS_NODE_NETWORK_H_
#define ADJOIN_TESTS_HARNESS_NODE_NETWORK_H_

#include <string>

#include "absl/status/statusor.h"
#include "tests/harness/local_cluster.h"

namespace adjoin {

class NodeNetwork {
 public:
  static constexpr char kNeeds[] = "network namespaces cannot be made here: that needs root and iproute2";
  static constexpr char kDevice[] = "data0";

  NodeNetwork();
  ~NodeNetwork();
  NodeNetwork(const NodeNetwork&) = delete;
  NodeNetwork& operator=(const NodeNetwork&) = delete;

  // Once. Returns false where the system does not allow it.
  bool Make(int nodes);
  // Runs a command on a node; whether it succeeded.
  bool In(int node, const std::string& command) const;
  bool SetLink(int node, bool up) const;
  // What one node sends to another one leaves it no faster than this. Once for a node. Returns false where the system
  // does not allow it.
  bool LimitRate(int from, int to, int megabits_per_second) const;

  // For a cluster with a daemon on each node, ranks that talk over TCP, and mutual TLS to the coordinator, which is
  // outside, at the bridge. The certificates are made in `folder`. Errors: the reason why they are not made.
  absl::StatusOr<LocalClusterOptions> ClusterOptions(const std::string& folder) const;

 private:
  std::string Address() const;  // of the bridge
  std::string AddressOf(int node) const;
  std::string Space(int node) const;
  std::string Bridge() const;
  std::string Cable(int node) const;

  const std::string id_, subnet_;
  int nodes_ = 0;
};

}  // namespace adjoin

#endif  // ADJOIN_TESTS_HARNESS_NODE_NETWORK_H_
