// What a planner process and the coordinator's end of it agree on (planner_process.h).
#ifndef ADJOIN_COORDINATOR_PLANNING_PLANNER_PROTOCOL_H_
#define ADJOIN_COORDINATOR_PLANNING_PLANNER_PROTOCOL_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace adjoin {

inline constexpr char kPlannerArgument[] = "--answer-plan-questions";  // then the parent's id, and bytes of memory
inline constexpr int kPlannerSocket = 3;
inline constexpr int kPlannerOutOfMemory = 77;              // exit code
inline constexpr uint64_t kMaxPlannerMessage = 512u << 20;  // a plan has at most 256 MiB
inline constexpr uint64_t kPlannerGuesses = ~uint64_t{0};   // before the answer: a plan for sizes that were seen begins
inline constexpr size_t kPlannerLengthBytes = sizeof(uint64_t);

// The length of a message as it goes before it.
inline std::string PlannerLength(uint64_t length) {
  std::string bytes(kPlannerLengthBytes, '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes;
}
inline uint64_t PlannerLengthFrom(const char* bytes) {
  uint64_t length;
  std::memcpy(&length, bytes, sizeof(length));
  return length;
}

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_PLANNING_PLANNER_PROTOCOL_H_
