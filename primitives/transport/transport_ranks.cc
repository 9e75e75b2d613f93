#include "primitives/transport/transport_ranks.h"

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/deadline.h"
#include "base/status_macros.h"
#include "primitives/transport/in_memory_transport.h"
#include "primitives/transport/on_device_transport.h"
#include "primitives/transport/rank_threads.h"
#include "primitives/transport/ucx_transport.h"

namespace adjoin {
namespace {

struct Ranks {
  std::vector<std::unique_ptr<Transport>> transports;
  std::vector<std::string> addresses;  // of UCX workers
};

absl::StatusOr<Ranks> CreateRanks(int n, TransportKind kind, uint64_t seed) {
  Ranks ranks;
  if (kind != TransportKind::kUcxSharedMemory && kind != TransportKind::kUcxTcp) {
    ADJOIN_ASSIGN_OR_RETURN(auto fabric, InMemoryFabric::Create(n, {seed, kind != TransportKind::kInMemory}));
    for (int r = 0; r < n; ++r) {
      ADJOIN_ASSIGN_OR_RETURN(auto transport, fabric->CreateTransport(r));
      // The transport keeps the fabric, and so the device, alive.
      if (kind == TransportKind::kOnDevice) transport = OnDevice(std::move(transport), &fabric->fake_device());
      ranks.transports.push_back(std::move(transport));
    }
    return ranks;
  }
  for (int r = 0; r < n; ++r) {
    UcxTransport::Options options;
    options.rank = r;
    options.size = n;
    options.shared_memory = kind == TransportKind::kUcxSharedMemory;
    options.other_nodes = !options.shared_memory;
    ADJOIN_ASSIGN_OR_RETURN(auto transport, UcxTransport::Create(options));
    ranks.addresses.push_back(transport->Address());
    ranks.transports.push_back(std::move(transport));
  }
  return ranks;
}

std::vector<absl::Status> RunAll(int n, TransportKind kind, uint64_t seed, RankFunction fn, absl::Duration timeout,
                                 int* first) {
  absl::StatusOr<Ranks> ranks = CreateRanks(n, kind, seed);
  if (!ranks.ok()) {
    *first = 0;
    return std::vector<absl::Status>(n, ranks.status());
  }
  const Deadline deadline = Deadline::After(timeout);
  const auto connected = [fn = std::move(fn), addresses = ranks->addresses, deadline](Transport& transport) {
    absl::Status status;
    if (auto* ucx = dynamic_cast<UcxTransport*>(&transport)) status = ucx->Connect(addresses, deadline);
    return status.ok() ? fn(transport) : status;
  };
  return RunRankThreads(std::move(ranks->transports), connected, timeout, first);
}

}  // namespace

std::string ToString(TransportKind kind) {
  switch (kind) {
    case TransportKind::kInMemory: return "InMemory";
    case TransportKind::kInMemoryDelayed: return "InMemoryDelayed";
    case TransportKind::kOnDevice: return "OnDevice";
    case TransportKind::kUcxSharedMemory: return "UcxSharedMemory";
    case TransportKind::kUcxTcp: return "UcxTcp";
  }
  return "Unknown";
}

absl::Status RunRanks(int n, TransportKind kind, uint64_t seed, RankFunction fn, absl::Duration timeout) {
  int first = -1;
  const std::vector<absl::Status> statuses = RunAll(n, kind, seed, std::move(fn), timeout, &first);
  if (first < 0) return absl::OkStatus();
  return absl::Status(statuses[first].code(), absl::StrCat("rank ", first, ": ", statuses[first].message()));
}

std::vector<absl::Status> RunRanksCollect(int n, TransportKind kind, uint64_t seed, RankFunction fn,
                                          absl::Duration timeout) {
  int first = -1;
  return RunAll(n, kind, seed, std::move(fn), timeout, &first);
}

}  // namespace adjoin
