// adjoin-worker: runs ranks of jobs on this node for a coordinator.
#include "worker/daemon/daemon_command.h"

int main(int argc, char** argv) { return adjoin::RunWorkerCommand(argc, argv); }
