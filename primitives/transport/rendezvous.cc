#include "primitives/transport/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "primitives/transport/transport_factory.h"

namespace adjoin {
namespace {

constexpr size_t kLongestRunId = 200;  // file names have at most 255 bytes
constexpr size_t kNamedRanks = 16;
constexpr absl::Duration kLongestSleep = absl::Milliseconds(50);

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

absl::Status Unavailable(const std::string& path, const char* what) {
  return absl::UnavailableError(absl::StrCat(path, " cannot be ", what, ": ", strerror(errno)));
}

// A file that this rank has made, and removes.
class OwnFile {
 public:
  explicit OwnFile(std::string path) : path_(std::move(path)) {}
  ~OwnFile() {
    if (made_) unlink(path_.c_str());
  }
  OwnFile(const OwnFile&) = delete;
  OwnFile& operator=(const OwnFile&) = delete;

  // A link, unlike a rename, never replaces a file.
  absl::Status Publish(const std::string& content) {
    std::string temporary = path_ + ".XXXXXX";
    const FileDescriptor file(mkostemp(temporary.data(), O_CLOEXEC));
    if (file.get() < 0) return Unavailable(path_, "made");
    absl::Status status;
    if (write(file.get(), content.data(), content.size()) != static_cast<ssize_t>(content.size())) {
      status = Unavailable(temporary, "written");
    } else if (link(temporary.c_str(), path_.c_str()) == 0) {
      made_ = true;
    } else if (errno == EEXIST) {
      status = absl::AlreadyExistsError(
          absl::StrCat(path_, " is already there: another process has this rank, or an earlier run with this run id ",
                       "was killed; give every run its own run id"));
    } else {
      status = Unavailable(path_, "made");
    }
    unlink(temporary.c_str());
    return status;
  }

 private:
  const std::string path_;
  bool made_ = false;
};

// Empty where there is no file: an address never is.
absl::StatusOr<std::string> ReadIfThere(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0 && errno == ENOENT) return std::string();
  if (file.get() < 0) return Unavailable(path, "read");
  std::string content;
  char block[4096];
  ssize_t bytes = 0;
  while ((bytes = read(file.get(), block, sizeof(block))) > 0) content.append(block, bytes);
  if (bytes < 0) return Unavailable(path, "read");
  return content;
}

absl::Status MissingError(const Rendezvous& rendezvous, const TransportOptions& options, std::vector<int> missing) {
  const size_t unnamed = missing.size() - std::min(missing.size(), kNamedRanks);
  missing.resize(missing.size() - unnamed);
  return absl::DeadlineExceededError(absl::StrCat(
      "rank ", options.rank, " of ", options.size, ": in ", rendezvous.folder, " there is no address of rank ",
      absl::StrJoin(missing, ", "), unnamed > 0 ? absl::StrCat(" and ", unnamed, " more") : "", " (file rank-",
      missing[0], ".", rendezvous.run_id, "): is it running, with this folder and this run id?"));
}

absl::StatusOr<std::vector<std::string>> WaitForAddresses(const Rendezvous& rendezvous, const std::string& prefix,
                                                          const TransportOptions& options, Deadline deadline) {
  std::vector<std::string> addresses(options.size);
  absl::Duration sleep = absl::Milliseconds(1);
  while (true) {
    const bool last_look = deadline.Expired();
    std::vector<int> missing;
    for (int r = 0; r < options.size; ++r) {
      if (!addresses[r].empty()) continue;
      ADJOIN_ASSIGN_OR_RETURN(addresses[r], ReadIfThere(absl::StrCat(prefix, r, ".", rendezvous.run_id)));
      if (addresses[r].empty()) missing.push_back(r);
    }
    if (missing.empty()) return addresses;
    if (last_look) return MissingError(rendezvous, options, std::move(missing));
    absl::SleepFor(std::min(sleep, deadline.Remaining()));
    sleep = std::min(2 * sleep, kLongestSleep);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> ConnectThroughFolder(const Rendezvous& rendezvous,
                                                                const TransportOptions& options, Deadline deadline) {
  const std::string& id = rendezvous.run_id;
  if (id.empty() || id.size() > kLongestRunId || id.find_first_of(std::string("/\0", 2)) != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("run id '", id, "' must have 1 to ", kLongestRunId,
                                                   " bytes, and no '/': it is part of a file's name"));
  }
  ADJOIN_ASSIGN_OR_RETURN(std::unique_ptr<Transport> transport, MakeTransport(options));
  const std::string prefix = rendezvous.folder + "/rank-";
  OwnFile own(absl::StrCat(prefix, options.rank, ".", id));
  ADJOIN_RETURN_IF_ERROR(own.Publish(transport->Address()));
  ADJOIN_ASSIGN_OR_RETURN(const std::vector<std::string> addresses,
                          WaitForAddresses(rendezvous, prefix, options, deadline));
  ADJOIN_RETURN_IF_ERROR(transport->Connect(addresses, deadline));
  return transport;
}

}  // namespace adjoin
