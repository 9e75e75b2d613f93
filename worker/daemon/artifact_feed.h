// Reads what a daemon uploads on a thread of its own, so that a file system that does not answer holds up neither the
// thread that sends it nor uploads from other file systems (mount_calls.h).
//
//   MountCalls calls({"/srv/output"}, {.of_one_mount = 16, .waiting_for_one = 8, .time = kLongestUpload});
//   const auto reader = OpenApart(calls, "/srv/output", send_artifact, [&] { return stopping; });
//   while ((*reader)->more()) ADJOIN_ASSIGN_OR_RETURN(std::string part, (*reader)->Next());
#ifndef ADJOIN_WORKER_DAEMON_ARTIFACT_FEED_H_
#define ADJOIN_WORKER_DAEMON_ARTIFACT_FEED_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/coordinator.pb.h"
#include "worker/daemon/artifact_reader.h"
#include "worker/daemon/mount_calls.h"

namespace adjoin {

inline constexpr absl::Duration kLongestUpload = absl::Hours(6);
// For opening a file, and for each part of it: below the 30 s for which the coordinator waits.
inline constexpr absl::Duration kFilePatience = absl::Seconds(25);

// As OpenArtifact. The reader is used by one thread, and keeps its room in `calls`, which outlives it, until it is
// destroyed and its file system has answered. `given_up` is asked several times a second while a file system is waited
// for. Errors, also of the reader's Next: kResourceExhausted (`calls` has no room, at this file system or in all, nor
// gets any within `patience`), kUnavailable (no thread can be started), kDeadlineExceeded (the file system does not
// answer), kCancelled (`given_up` returned true), those of OpenArtifact.
absl::StatusOr<std::unique_ptr<ArtifactReader>> OpenApart(MountCalls& calls, const std::string& root,
                                                          const SendArtifact& request, std::function<bool()> given_up,
                                                          absl::Duration patience = kFilePatience);

}  // namespace adjoin

#endif  // ADJOIN_WORKER_DAEMON_ARTIFACT_FEED_H_
