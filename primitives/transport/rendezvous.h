// Connects the ranks of a program through files in a folder that all of them see: for programs that run without
// Adjoin's coordinator, started by mpirun, srun or by themselves.
//
//   TransportOptions options;
//   options.rank = rank;
//   options.size = size;
//   ADJOIN_ASSIGN_OR_RETURN(auto transport, ConnectThroughFolder({"/shared/run", "job-17"}, options,
//                                                                Deadline::After(absl::Seconds(60))));
//
// Rank R's address is the file `rank-R.RUN_ID`. It appears whole or not at all, and its rank removes it once all ranks
// are connected (all have read it by then) or it gave up; only a killed rank leaves its file. The run id keeps such a
// file of one run from being taken for another's. Everybody who can write to the folder can join the run: it should
// belong to the user who runs it.
#ifndef ADJOIN_PRIMITIVES_TRANSPORT_RENDEZVOUS_H_
#define ADJOIN_PRIMITIVES_TRANSPORT_RENDEZVOUS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/deadline.h"
#include "primitives/transport/transport.h"
#include "primitives/transport/transport_options.h"

namespace adjoin {

struct Rendezvous {
  std::string folder;  // exists; the same for all ranks
  std::string run_id;  // chosen by what starts the ranks: the same for all of them, another for every run
};

// Collective: returns once all `options.size` ranks are connected.
// Errors: kInvalidArgument (a run id that is empty, longer than 200 bytes or has a '/'; a rank of another size;
// options), kUnavailable (the folder cannot be read or written), kAlreadyExists (this rank's file is there: another
// process has this rank, or the run id was used before), kDeadlineExceeded (names the ranks whose file is missing); as
// MakeTransport and Connect.
absl::StatusOr<std::unique_ptr<Transport>> ConnectThroughFolder(const Rendezvous& rendezvous,
                                                                const TransportOptions& options, Deadline deadline);

}  // namespace adjoin

#endif  // ADJOIN_PRIMITIVES_TRANSPORT_RENDEZVOUS_H_
