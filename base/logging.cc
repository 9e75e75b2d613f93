#include "base/logging.h"

#include <atomic>
#include <memory>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/printable_text.h"
#include "nlohmann/json.hpp"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace adjoin {
namespace {

std::atomic<bool> as_json{false};

// Limits one message. Users and files can make it long; nobody reads more of it in a log.
constexpr size_t kMaxMessage = 16 << 10;

std::string JsonLine(spdlog::level::level_enum level, const std::string& message, const LogFields& fields) {
  const auto name = spdlog::level::to_string_view(level);
  nlohmann::ordered_json line;
  line["ts"] = absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone());
  line["level"] = std::string(name.data(), name.size());
  line["program"] = spdlog::default_logger_raw()->name();
  line["message"] = message;
  if (!fields.job.empty()) line["job"] = PrintableText(fields.job, kMaxMessage);
  if (fields.attempt != 0) line["attempt"] = fields.attempt;
  if (fields.rank.has_value()) line["rank"] = *fields.rank;
  // Bytes that are not UTF-8 are replaced, so that no line is lost for them.
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

// A message is never a format string: it may hold braces. It may quote what users and files contain, and is one line
// all the same.
void Log(spdlog::level::level_enum level, const std::string& message, const LogFields& fields) {
  const std::string shown = PrintableText(message, kMaxMessage);
  spdlog::default_logger_raw()->log(level, spdlog::string_view_t(as_json ? JsonLine(level, shown, fields) : shown));
}

}  // namespace

std::optional<LogFormat> ReadLogFormat(const std::string& name) {
  if (name == "text") return LogFormat::kText;
  if (name == "json") return LogFormat::kJson;
  return std::nullopt;
}

void InitLogging(const std::string& program, LogFormat format, bool quiet) {
  auto logger = std::make_shared<spdlog::logger>(program, std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern(format == LogFormat::kJson ? "%v" : "%Y-%m-%dT%H:%M:%S.%e%z %n %l: %v");
  logger->set_level(quiet ? spdlog::level::warn : spdlog::level::info);
  logger->flush_on(spdlog::level::info);
  as_json = format == LogFormat::kJson;
  spdlog::set_default_logger(std::move(logger));
}

void LogInfo(const std::string& message, const LogFields& fields) { Log(spdlog::level::info, message, fields); }
void LogWarning(const std::string& message, const LogFields& fields) { Log(spdlog::level::warn, message, fields); }
void LogError(const std::string& message, const LogFields& fields) { Log(spdlog::level::err, message, fields); }

}  // namespace adjoin
