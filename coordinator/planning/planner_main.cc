// The planner process' own end (planner_process.h).
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <new>
#include <string>

#include "absl/strings/numbers.h"
#include "coordinator/planning/plan_answer.h"
#include "coordinator/planning/planner_process.h"
#include "coordinator/planning/planner_protocol.h"
#include "coordinator/planning/seen_sizes.h"

namespace adjoin {
namespace {

constexpr int kNice = 5;
constexpr char kOomScore[] = "500";  // before the coordinator, and before most others
// After an answer that is longer, free memory goes back to the system.
constexpr size_t kLargeAnswer = size_t{1} << 20;

// Sanitizers reserve terabytes of addresses, which count as memory.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kLimitsMemory = false;
#else
constexpr bool kLimitsMemory = true;
#endif

// Returns false where the parent has ended before.
bool DieWithParent(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  return getppid() == parent;
}

void LimitSelf(uint64_t memory_bytes) {
  prctl(PR_SET_NAME, "adjoin-planner");
  // The coordinator decides when its planners end.
  signal(SIGTERM, SIG_IGN);
  signal(SIGINT, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  const rlimit memory = {memory_bytes, memory_bytes};
  if (kLimitsMemory && memory_bytes > 0) setrlimit(RLIMIT_DATA, &memory);
  std::set_new_handler([] { _exit(kPlannerOutOfMemory); });
  setpriority(PRIO_PROCESS, 0, kNice);
  const int score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (score < 0) return;
  if (write(score, kOomScore, sizeof(kOomScore) - 1) < 0) {
    // Then it is killed in its turn.
  }
  close(score);
}

// Returns false at the end of the coordinator.
bool ReadAll(char* bytes, size_t count) {
  while (count > 0) {
    const ssize_t got = read(kPlannerSocket, bytes, count);
    if (got == 0 || (got < 0 && errno != EINTR)) return false;
    if (got < 0) continue;
    bytes += got;
    count -= static_cast<size_t>(got);
  }
  return true;
}
bool WriteAll(const char* bytes, size_t count) {
  while (count > 0) {
    const ssize_t put = write(kPlannerSocket, bytes, count);
    if (put < 0 && errno != EINTR) return false;
    if (put < 0) continue;
    bytes += put;
    count -= static_cast<size_t>(put);
  }
  return true;
}

}  // namespace

bool IsPlannerProcess(int argc, char** argv) { return argc == 4 && std::string(argv[1]) == kPlannerArgument; }

int RunPlannerProcess(char** argv, const LayerRules& rules) {
  int parent = 0;
  uint64_t memory_bytes = 0;
  if (!absl::SimpleAtoi(argv[2], &parent) || !absl::SimpleAtoi(argv[3], &memory_bytes)) return 2;
  if (!DieWithParent(parent)) return 0;
  LimitSelf(memory_bytes);
  SeenSizes seen;
  char length[kPlannerLengthBytes];
  while (ReadAll(length, sizeof(length))) {
    std::string bytes(PlannerLengthFrom(length), '\0');
    PlanQuestion question;
    if (!ReadAll(bytes.data(), bytes.size()) || !question.ParseFromString(bytes)) return 2;
    // Where that fails, so does the answer.
    const auto tell = [] { WriteAll(PlannerLength(kPlannerGuesses).data(), kPlannerLengthBytes); };
    const PlanAnswer answer = AnswerPlanQuestion(question, rules, &seen, tell);
    // The length goes first, so that the answer is sent at once.
    bytes = PlannerLength(answer.ByteSizeLong());
    answer.AppendToString(&bytes);
    if (!WriteAll(bytes.data(), bytes.size())) return 0;
    if (bytes.size() > kLargeAnswer) {
      bytes = std::string();
      malloc_trim(0);
    }
  }
  return 0;
}

}  // namespace adjoin
