// Log lines on stderr, with time and severity.
//
//   InitLogging("adjoin-worker");
//   LogInfo(absl::StrCat("connected to ", address));
//
// Any thread may log at any time. An error is logged once, where it is decided what follows from it.
#ifndef ADJOIN_BASE_LOGGING_H_
#define ADJOIN_BASE_LOGGING_H_

#include <string>

namespace adjoin {

// Names the program in every line. Call it once, at the start of main.
void InitLogging(const std::string& program);

void LogInfo(const std::string& message);
void LogWarning(const std::string& message);
void LogError(const std::string& message);

}  // namespace adjoin

#endif  // ADJOIN_BASE_LOGGING_H_
