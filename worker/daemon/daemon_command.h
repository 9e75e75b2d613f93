// The program adjoin-worker.
//
//   int main(int argc, char** argv) { return adjoin::RunWorkerCommand(argc, argv); }
#ifndef ADJOIN_WORKER_DAEMON_DAEMON_COMMAND_H_
#define ADJOIN_WORKER_DAEMON_DAEMON_COMMAND_H_

#include <functional>

#include "worker/daemon/coordinator_link.h"

namespace adjoin {

struct WorkerCommandOptions {
  // Makes the interceptors for each gRPC channel to the coordinator; tests inject faults with them.
  std::function<ClientInterceptors()> interceptors;
};

// Returns the exit code. Call it before any other thread is started: it takes over the signals that stop a program.
int RunWorkerCommand(int argc, char** argv, const WorkerCommandOptions& options = {});

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_DAEMON_COMMAND_H_
