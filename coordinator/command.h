// The program adjoin-coordinator, for the layers whose rules it is given.
//
//   int main(int argc, char** argv) {
//     return adjoin::RunCoordinatorCommand(argc, argv, adjoin::BuiltinLayerRules());     // or with a user's own
//   }
#ifndef ADJOIN_COORDINATOR_COMMAND_H_
#define ADJOIN_COORDINATOR_COMMAND_H_

#include <grpcpp/support/server_interceptor.h>

#include <memory>
#include <vector>

#include "layers/rules/layer_rule.h"

namespace adjoin {

// Of every RPC that the coordinator serves; for tests that inject faults.
using CoordinatorInterceptors = std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>;

// The exit code. Call it before any other thread is started: it takes over the signals that stop a program.
int RunCoordinatorCommand(int argc, char** argv, const LayerRules& rules, CoordinatorInterceptors interceptors = {});

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_COMMAND_H_
