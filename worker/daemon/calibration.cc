#include "worker/daemon/calibration.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/deadline.h"
#include "base/printable_text.h"
#include "base/state_folder.h"
#include "base/status_macros.h"
#include "base/text_table.h"
#include "planner/time/rate_check.h"
#include "planner/time/rate_merge.h"
#include "worker/daemon/child_output.h"
#include "worker/rank/calibrate_flags.h"

namespace adjoin {
namespace {

constexpr size_t kMaxReason = 400;
// For starting, meeting, planning, and kernels that take long.
constexpr absl::Duration kMore = absl::Seconds(120);
constexpr absl::Duration kDies = absl::Seconds(5);

// A folder for the ranks to meet in; removed with what is in it.
class MeetingFolder {
 public:
  ~MeetingFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  absl::StatusOr<std::string> Make(const std::optional<User>& user) {
    std::string path = (std::filesystem::temp_directory_path() / "adjoin-calibration.XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) {
      return absl::UnavailableError(absl::StrCat("folder ", path, " cannot be made: ", strerror(errno)));
    }
    path_ = path;
    if (user.has_value() && chown(path.c_str(), user->uid, user->gid) != 0) {
      return absl::UnavailableError(
          absl::StrCat("folder ", path, " cannot be given to ", user->name, ": ", strerror(errno)));
    }
    return path_;
  }

 private:
  std::string path_;
};

// A rank that measures, and what it has written so far.
struct Measuring {
  ChildProcess child;
  std::string out, err;
};

// Ends with the program that has died, or has closed both of its outputs.
void ReadAll(std::vector<Measuring>& ranks, Deadline deadline, const std::function<bool()>& stops) {
  constexpr int kPollMs = 200;
  while (!deadline.Expired()) {
    if (stops && stops()) return;
    std::vector<pollfd> fds;
    std::vector<std::pair<UniqueFd*, std::string*>> to;
    for (Measuring& rank : ranks) {
      const std::pair<UniqueFd*, std::string*> outputs[] = {{&rank.child.out, &rank.out}, {&rank.child.err, &rank.err}};
      for (auto [fd, text] : outputs) {
        if (fd->get() < 0) continue;
        fds.push_back({fd->get(), POLLIN, 0});
        to.emplace_back(fd, text);
      }
    }
    if (fds.empty()) return;
    if (poll(fds.data(), fds.size(), std::min(kPollMs, PollMilliseconds(deadline))) <= 0) continue;
    for (size_t i = 0; i < fds.size(); ++i) {
      if (fds[i].revents != 0 && !ReadSome(*to[i].first, *to[i].second)) to[i].first->reset();
    }
  }
}

void End(const std::vector<Measuring>& ranks) {
  const Deadline deadline = Deadline::After(kDies);
  for (const Measuring& rank : ranks) kill(-rank.child.pid, SIGKILL);
  for (const Measuring& rank : ranks) {
    if (!Reap(rank.child, deadline)) return;
  }
}

absl::StatusOr<std::vector<Measuring>> StartRanks(const CalibrationOptions& options, const std::string& folder) {
  std::vector<Measuring> ranks;
  for (int rank = 0; rank < options.ranks; ++rank) {
    SpawnRequest command;
    command.binary = options.rank_binary;
    command.arguments = {kCalibrate, absl::StrCat("--rank=", rank), absl::StrCat("--ranks=", options.ranks),
                         absl::StrCat("--folder=", folder),
                         absl::StrCat("--seconds=", absl::ToDoubleSeconds(options.seconds))};
    command.environment = RankEnvironment(options.user.has_value() ? options.user->home : "");
    command.user = options.user;
    absl::StatusOr<ChildProcess> child = Spawn(command);
    if (!child.ok()) {
      End(ranks);
      return child.status();
    }
    ranks.push_back({*std::move(child), "", ""});
  }
  return ranks;
}

absl::StatusOr<RateTable> TableOf(const Measuring& rank, int number, bool late) {
  const std::string who = absl::StrCat("rank ", number, " of the calibration");
  const size_t end = rank.out.rfind(kCalibrationEnd);
  if (end != std::string::npos) return ParseRates(rank.out.substr(0, end), who);
  if (late) return absl::DeadlineExceededError(absl::StrCat(who, " took too long"));
  return absl::DataLossError(absl::StrCat(who, " ended without a whole table", LastWords(rank.err)));
}

// "2 cores of an AMD EPYC", from /proc/cpuinfo.
std::string ThisMachine(int ranks) {
  std::ifstream info("/proc/cpuinfo");
  std::string model = "an unknown processor";
  for (std::string line; std::getline(info, line);) {
    if (!absl::StartsWith(line, "model name")) continue;
    const size_t colon = line.find(':');
    if (colon != std::string::npos) model = std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
    break;
  }
  std::string text = absl::StrCat(ranks, ranks == 1 ? " core of " : " cores of ", model);
  text.erase(std::remove_if(text.begin(), text.end(), [](unsigned char c) { return !absl::ascii_isprint(c); }),
             text.end());
  return text.substr(0, kMostRateText);
}

}  // namespace

absl::StatusOr<RateTable> MeasureRates(const CalibrationOptions& options) {
  MeetingFolder folder;
  ADJOIN_ASSIGN_OR_RETURN(const std::string path, folder.Make(options.user));
  ADJOIN_ASSIGN_OR_RETURN(std::vector<Measuring> ranks, StartRanks(options, path));
  const Deadline deadline = Deadline::After(options.seconds * 4 + kMore);
  ReadAll(ranks, deadline, options.stops);
  const bool late = deadline.Expired();
  End(ranks);
  if (options.stops && options.stops()) return absl::CancelledError("the calibration was interrupted");
  std::vector<RateTable> tables;
  for (size_t i = 0; i < ranks.size(); ++i) {
    ADJOIN_ASSIGN_OR_RETURN(RateTable table, TableOf(ranks[i], static_cast<int>(i), late));
    tables.push_back(std::move(table));
  }
  ADJOIN_ASSIGN_OR_RETURN(RateTable rates, MergeRates(tables));
  rates.set_machine(ThisMachine(options.ranks));
  return rates;
}

absl::Status SaveRates(const std::string& state_dir, const RateTable& rates) {
  return WriteFileAtomically(absl::StrCat(state_dir, "/", kRatesFile), RatesText(rates));
}

absl::StatusOr<std::optional<RateTable>> LoadRates(const std::string& state_dir) {
  const std::string path = absl::StrCat(state_dir, "/", kRatesFile);
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) return std::optional<RateTable>();
  const auto damaged = [&path](const std::string& why) {
    return absl::InvalidArgumentError(
        absl::StrCat(why, "; remove ", path, ", or measure again with adjoin-worker --calibrate"));
  };
  if (error) return absl::UnavailableError(absl::StrCat("cannot read ", path, ": ", error.message()));
  if (status.type() != std::filesystem::file_type::regular) return damaged(absl::StrCat(path, " is no file"));
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot read ", path, ": ", error.message()));
  if (bytes > kMostChildOutput) {
    return damaged(absl::StrCat(path, " has ", bytes, " bytes; a table of rates has at most ", kMostChildOutput));
  }
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) return absl::UnavailableError(absl::StrCat("cannot read ", path));
  absl::StatusOr<RateTable> rates = ParseRates(text.str(), path);
  if (!rates.ok()) return damaged(PrintableText(rates.status().message(), kMaxReason));
  return std::optional<RateTable>(*std::move(rates));
}

std::string RatesForPeople(const RateTable& rates) {
  std::vector<std::vector<std::string>> rows = {
      {"kernel", "type", "sizes", "forward us", "backward us", "forward Gflop/s", "forward GB/s"}};
  for (const KernelRate& rate : rates.kernel()) {
    rows.push_back({rate.kind(), rate.dtype(), absl::StrJoin(rate.size(), " "),
                    absl::StrFormat("%.1f", 1e6 * rate.forward_seconds()),
                    rate.backward_seconds() > 0 ? absl::StrFormat("%.1f", 1e6 * rate.backward_seconds()) : "-",
                    absl::StrFormat("%.3g", 1e-9 * rate.flops() / rate.forward_seconds()),
                    absl::StrFormat("%.3g", 1e-9 * rate.bytes() / rate.forward_seconds())});
  }
  std::string text = TextTable(rows);
  for (const LaneRate& lane : rates.lane()) {
    absl::StrAppendFormat(&text,
                          "between ranks through %s: %.2f us a round, %.2f us a message, %.3g ns a KB; packing %.3g, "
                          "adding %.3g ns a KB\n",
                          lane.lane(), 1e6 * lane.round_seconds(), 1e6 * lane.message_seconds(),
                          1e12 * lane.byte_seconds(), 1e12 * lane.pack_byte_seconds(), 1e12 * lane.add_byte_seconds());
  }
  return text;
}

}  // namespace adjoin
