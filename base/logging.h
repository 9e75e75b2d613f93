// Log lines on stderr, with time and severity: for people, or a JSON object each for programs.
//
//   InitLogging("adjoin-worker", LogFormat::kJson);
//   LogInfo(absl::StrCat("connected to ", address));
//   LogWarning("rank 2 of job-7 was killed by signal 9 (SIGKILL)", {.job = "job-7", .attempt = 3, .rank = 2});
//
//   2026-11-20T14:00:00.123+0000 adjoin-worker warning: rank 2 of job-7 was killed by signal 9 (SIGKILL)
//   {"ts":"2026-11-20T14:00:00.123Z","level":"warning","program":"adjoin-worker","message":"rank 2 ...","job":"job-7",
//    "attempt":3,"rank":2}
//
// A message is one line of printable text of at most 16 KiB, whatever it quotes (base/printable_text.h).
// Any thread may log at any time. An error is logged once, where it is decided what follows from it.
#ifndef ADJOIN_BASE_LOGGING_H_
#define ADJOIN_BASE_LOGGING_H_

#include <cstdint>
#include <optional>
#include <string>

namespace adjoin {

enum class LogFormat { kText, kJson };
// Reads "text" or "json"; nothing for any other name.
std::optional<LogFormat> ReadLogFormat(const std::string& name);

// The job, attempt and rank that a line is about, for programs that search the log. A line for people has them in its
// text.
struct LogFields {
  std::string job = {};  // empty: no job
  uint64_t attempt = 0;  // the epoch; 0: no attempt
  std::optional<uint32_t> rank = {};
};

// Names the program in every line. Call it once, when the program starts. `quiet`: LogInfo writes nothing, as for a
// command whose users look at its output.
void InitLogging(const std::string& program, LogFormat format = LogFormat::kText, bool quiet = false);

void LogInfo(const std::string& message, const LogFields& fields = {});
void LogWarning(const std::string& message, const LogFields& fields = {});
void LogError(const std::string& message, const LogFields& fields = {});

}  // namespace adjoin

#endif  // ADJOIN_BASE_LOGGING_H_
