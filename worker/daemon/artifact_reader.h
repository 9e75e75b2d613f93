// Reads what a daemon uploads for a user: a file of a job, or the model in one of its checkpoints.
//
//   ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<ArtifactReader> reader, OpenArtifact("/srv/output", send_artifact));
//   while (reader->more()) ADJOIN_ASSIGN_OR_RETURN(std::string part, reader->Next());     // may be empty
//
// No link leads out of the root. One thread; waits for as long as the file system does.
#ifndef ADJOIN_WORKER_DAEMON_ARTIFACT_READER_H_
#define ADJOIN_WORKER_DAEMON_ARTIFACT_READER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "proto/coordinator.pb.h"

namespace adjoin {

class ArtifactReader {
 public:
  virtual ~ArtifactReader() = default;
  // In all. A file that grows meanwhile is read as far as it was when it was opened.
  virtual int64_t bytes() const = 0;
  virtual bool more() const = 0;
  // Returns the next part, of at most 1 MiB. Errors: kDataLoss (the file became shorter; a damaged checkpoint), others
  // of CheckpointModel::Next.
  virtual absl::StatusOr<std::string> Next() = 0;
};

// Errors: kInvalidArgument (no name of a file; no regular file), kNotFound (the attempt has written none, or it was
// removed; no such checkpoint), others of HoldBelow and CheckpointModel::Open.
absl::StatusOr<std::unique_ptr<ArtifactReader>> OpenArtifact(const std::string& root, const SendArtifact& request);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_ARTIFACT_READER_H_
