// Threads as ranks: runs a test's function on n ranks of one process, each with a transport of its own.
//
//   absl::Status status = RunRanks(4, TransportKind::kInMemoryDelayed, seed, [](Transport& t) -> absl::Status {
//     ...
//     return absl::OkStatus();
//   });
//   ASSERT_TRUE(status.ok()) << status << " (seed " << seed << ")";
//
// A rank that returns an error aborts the others with that error, and a watchdog aborts all of them when the time is
// up, so no test hangs. A rank that does not return even then (it waits outside its transport) ends the process with a
// message that names it.
#ifndef ADJOIN_PRIMITIVES_TRANSPORT_TRANSPORT_RANKS_H_
#define ADJOIN_PRIMITIVES_TRANSPORT_TRANSPORT_RANKS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "primitives/device/device.h"
#include "primitives/transport/transport.h"

namespace adjoin {

// Three move the memory of fake device r at rank r, too: kDeviceDirect in memory and delayed, without copies between;
// kDeviceStaged the same through pinned memory; kUcxStaged through pinned memory that UCX moves. The last two move
// that of the first CUDA device: kCudaStaged in memory, delayed, through pinned memory; kCudaUcx by UCX itself.
enum class TransportKind {
  kInMemory,
  kInMemoryDelayed,
  kUcxSharedMemory,
  kUcxTcp,
  kDeviceDirect,
  kDeviceStaged,
  kUcxStaged,
  kCudaStaged,
  kCudaUcx,
};

// All that move only host memory.
inline constexpr TransportKind kAllTransportKinds[] = {TransportKind::kInMemory, TransportKind::kInMemoryDelayed,
                                                       TransportKind::kUcxSharedMemory, TransportKind::kUcxTcp};

std::string ToString(TransportKind kind);  // "InMemory", ...: fit for the name of a parametrised test
inline std::ostream& operator<<(std::ostream& out, TransportKind kind) { return out << ToString(kind); }

// Returns the transports of ranks 0 to n-1 of ChosenTransport(kind), not connected. `seed` drives the delays of the
// in-memory transport and of fake devices; UCX ignores it. Errors: kNotFound where there is no CUDA device.
absl::StatusOr<std::vector<std::unique_ptr<Transport>>> OpenTransports(int n, TransportKind kind, uint64_t seed);

// The device whose memory ChosenTransport(kind) moves at a rank; null for those that move only host memory.
// Errors: as CudaDriver::Open.
absl::StatusOr<std::shared_ptr<Device>> DeviceOfRank(TransportKind kind, int rank, uint64_t seed);

// What a test of kInMemoryDelayed runs on: the kind that the environment variable ADJOIN_TEST_TRANSPORT names, so that
// a test that was written for the host's memory also runs on a device's. All other kinds are themselves.
TransportKind ChosenTransport(TransportKind kind);

using RankFunction = std::function<absl::Status(Transport&)>;

// Runs `fn` on ranks 0 to n-1 and returns the error that came first in time, with "rank r: " before its message, or OK
// if every rank returned OK. `seed`: as for OpenTransports.
absl::Status RunRanks(int n, TransportKind kind, uint64_t seed, RankFunction fn,
                      absl::Duration timeout = absl::Seconds(60));

// The same, but returns every rank's own status, in the order of ranks, unchanged.
std::vector<absl::Status> RunRanksCollect(int n, TransportKind kind, uint64_t seed, RankFunction fn,
                                          absl::Duration timeout = absl::Seconds(60));

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TRANSPORT_TRANSPORT_RANKS_H_
