// The workers as rows of a table, for `adjoin ps` and `adjoin top`.
#ifndef ADJOIN_CLI_WORKER_ROWS_H_
#define ADJOIN_CLI_WORKER_ROWS_H_

#include <string>
#include <vector>

#include "proto/coordinator.pb.h"

namespace adjoin {

// First the columns' names. Columns of memory, GPUs and conditions are there where a worker tells of some.
std::vector<std::vector<std::string>> WorkerRows(const ListJobsResponse& list);

}  // namespace adjoin

#endif  // ADJOIN_CLI_WORKER_ROWS_H_
