// adjoin top: jobs and workers on the whole terminal.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/deadline.h"
#include "base/monotonic_condition.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "cli/commands.h"
#include "cli/full_screen.h"
#include "cli/job_description.h"
#include "cli/job_list.h"
#include "cli/key_reader.h"
#include "cli/terminal.h"
#include "cli/top_page.h"

namespace adjoin {
namespace {

constexpr absl::Duration kSequence = absl::Milliseconds(50);  // between the bytes of a key
constexpr absl::Duration kIdle = absl::Minutes(10);           // then it looks whether there is something, for nothing

PsOptions JobsOf(const TopOptions& top) {
  PsOptions ps;
  ps.owner = top.owner;
  ps.limit = top.limit;
  return ps;
}

// Asks the coordinator, in a thread of its own, so that keys have an effect while it does not answer.
class Questions {
 public:
  struct Answer {
    absl::StatusOr<ListJobsResponse> list = absl::UnknownError("not asked yet");
    std::string job, details;  // of the job that was looked at; "": none
  };

  Questions(const CommandOptions& options, const TopOptions& top)
      : top_(top), client_(OptionsOf(options)), ready_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    thread_ = std::thread([this] { Run(); });
  }
  ~Questions() {
    {
      absl::MutexLock lock(&mutex_);
      over_ = true;
      changed_.NotifyAll();
    }
    client_.Cancel();
    thread_.join();
  }
  Questions(const Questions&) = delete;
  Questions& operator=(const Questions&) = delete;

  int ready_fd() const { return ready_.get(); }  // readable when there is an answer

  // Asks about another job from now on, and at once.
  void LookAt(const std::string& job) {
    absl::MutexLock lock(&mutex_);
    if (job == job_) return;
    job_ = job;
    at_once_ = true;
    changed_.NotifyAll();
  }

  std::optional<Answer> Take() {
    uint64_t count = 0;
    if (read(ready_.get(), &count, sizeof(count)) < 0) return std::nullopt;
    absl::MutexLock lock(&mutex_);
    return std::exchange(answer_, std::nullopt);
  }

 private:
  // What fails is shown, and asked again after the interval.
  static ClientOptions OptionsOf(const CommandOptions& options) {
    ClientOptions client = options.client;
    client.retry = absl::ZeroDuration();
    client.notice = nullptr;
    return client;
  }

  Answer Ask(const std::string& job) {
    Answer answer;
    answer.list = ListNewest(client_, JobsOf(top_));
    if (job.empty() || !answer.list.ok()) return answer;
    answer.job = job;
    const absl::StatusOr<DescribeJobResponse> described = client_.DescribeJob(job);
    const absl::StatusOr<RestartCauses> causes =
        described.ok() ? CausesOf(client_, described->job()) : described.status();
    answer.details =
        causes.ok() ? DescriptionText(*described, *causes) : absl::StrCat(std::string(causes.status().message()), "\n");
    return answer;
  }

  void Run() {
    while (true) {
      std::string job;
      {
        absl::MutexLock lock(&mutex_);
        if (over_) return;
        job = job_;
        at_once_ = false;
      }
      Answer answer = Ask(job);
      {
        absl::MutexLock lock(&mutex_);
        answer_ = std::move(answer);
      }
      const uint64_t one = 1;
      [[maybe_unused]] const ssize_t written = write(ready_.get(), &one, sizeof(one));
      absl::MutexLock lock(&mutex_);
      changed_.Wait(mutex_, Deadline::After(absl::Seconds(top_.interval_seconds)),
                    [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return over_ || at_once_; });
    }
  }

  const TopOptions top_;
  CoordinatorClient client_;
  const UniqueFd ready_;
  absl::Mutex mutex_;
  MonotonicCondition changed_;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  bool at_once_ ABSL_GUARDED_BY(mutex_) = false;
  std::string job_ ABSL_GUARDED_BY(mutex_);
  std::optional<Answer> answer_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

void Show(std::optional<Questions::Answer> answer, TopPage& page) {
  if (!answer.has_value()) return;
  page.SetNotice(answer->list.ok() ? "" : std::string(answer->list.status().message()));
  if (answer->list.ok()) page.Set(*std::move(answer->list));
  if (!answer->job.empty()) page.SetDetails(answer->job, std::move(answer->details));
}

// Returns the signal that ended it; 0: the user left.
int ShowUntilLeft(FullScreen& screen, Questions& questions, TopPage& page) {
  KeyReader keys;
  while (true) {
    screen.Draw(page.Text(static_cast<size_t>(TerminalWidth()), static_cast<size_t>(TerminalHeight())));
    const FullScreen::Happened happened =
        screen.Wait(questions.ready_fd(), Deadline::After(keys.waiting() ? kSequence : kIdle));
    if (happened.signal != 0) return happened.signal == SIGINT ? 0 : happened.signal;
    if (happened.gone) return 0;
    if (happened.woken) Show(questions.Take(), page);
    for (const Key key : happened.input.empty() && !happened.woken ? keys.Flush() : keys.Read(happened.input)) {
      if (!page.Press(key)) return 0;
    }
    questions.LookAt(page.looked_at());
  }
}

}  // namespace

absl::StatusOr<int> RunTop(const CommandOptions& options, const TopOptions& top) {
  // What is wrong from the start is told as other commands tell it.
  CoordinatorClient client(options.client);
  ADJOIN_ASSIGN_OR_RETURN(ListJobsResponse list, ListNewest(client, JobsOf(top)));
  const bool screen_possible = FullScreen::Possible();
  TopPageOptions page_options;
  page_options.coordinator = options.client.address;
  page_options.color = options.color;
  page_options.marks = screen_possible;
  TopPage page(std::move(page_options));
  page.Set(std::move(list));
  if (!screen_possible) {
    std::cout << page.Text(static_cast<size_t>(TerminalWidth()), 0) << std::flush;
    return 0;
  }
  int signal = 0;
  {
    Questions questions(options, top);
    ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<FullScreen> screen, FullScreen::Enter());
    signal = ShowUntilLeft(*screen, questions, page);
  }
  if (signal != 0) {  // the process ends by it, as without a handler
    ::signal(signal, SIG_DFL);
    raise(signal);
  }
  return 0;
}

}  // namespace adjoin
