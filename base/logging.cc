#include "base/logging.h"

#include <memory>

#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace adjoin {

void InitLogging(const std::string& program) {
  auto logger = std::make_shared<spdlog::logger>(program, std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %n %l: %v");
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

// A message is never a format string: it may hold braces.
void LogInfo(const std::string& message) { spdlog::default_logger_raw()->info(spdlog::string_view_t(message)); }
void LogWarning(const std::string& message) { spdlog::default_logger_raw()->warn(spdlog::string_view_t(message)); }
void LogError(const std::string& message) { spdlog::default_logger_raw()->error(spdlog::string_view_t(message)); }

}  // namespace adjoin
