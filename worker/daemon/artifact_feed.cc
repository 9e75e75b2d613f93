#include "worker/daemon/artifact_feed.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/deadline.h"
#include "base/monotonic_condition.h"
#include "base/status_macros.h"
#include "base/wait_unless_gone.h"

namespace adjoin {
namespace {

constexpr char kBusy[] = "the worker sends many files already: try again later";

// What the two threads share; it lives until both are done.
struct Exchange {
  absl::Mutex mutex;
  MonotonicCondition changed;
  bool wanted ABSL_GUARDED_BY(mutex) = true;  // what comes next: the opened file, then each part
  bool over ABSL_GUARDED_BY(mutex) = false;   // nothing will be wanted any more
  // When the file system is to have answered; absent: there was no room at it yet.
  std::optional<Deadline> answer_due ABSL_GUARDED_BY(mutex);
  int64_t bytes ABSL_GUARDED_BY(mutex) = 0;
  bool more ABSL_GUARDED_BY(mutex) = false;
  std::string part ABSL_GUARDED_BY(mutex);
  std::optional<absl::Status> ended ABSL_GUARDED_BY(mutex);  // why nothing comes any more
};

const std::string& FolderOf(const SendArtifact& request) {
  return request.has_checkpoint() ? request.checkpoint().dir() : request.output_dir();
}

void Give(Exchange& exchange, std::string part, const ArtifactReader& reader) {
  {
    absl::MutexLock lock(&exchange.mutex);
    exchange.wanted = false;
    exchange.bytes = reader.bytes();
    exchange.more = reader.more();
    exchange.part = std::move(part);
  }
  exchange.changed.NotifyAll();
}

// Returns false where nothing will be wanted.
bool AwaitWanted(Exchange& exchange, Deadline until) {
  absl::MutexLock lock(&exchange.mutex);
  const auto wanted = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(exchange.mutex) { return exchange.wanted || exchange.over; };
  return exchange.changed.Wait(exchange.mutex, until, wanted) && !exchange.over;
}

// The reading thread, which may never return from its file system. Returns why it gives no more.
absl::Status Feed(Exchange& exchange, const std::string& root, const SendArtifact& request, absl::Duration patience,
                  const MountCalls::Enter& enter) {
  const Deadline until = Deadline::After(kLongestUpload);
  if (absl::Status room = enter(absl::StrCat(root, "/", FolderOf(request))); !room.ok()) {
    return absl::ResourceExhaustedError(absl::StrCat(kBusy, " (", std::string(room.message()), ")"));
  }
  {
    absl::MutexLock lock(&exchange.mutex);
    exchange.answer_due = Deadline::After(patience / 2);
  }
  ADJOIN_ASSIGN_OR_RETURN(const std::unique_ptr<ArtifactReader> reader, OpenArtifact(root, request));
  for (std::string part;;) {
    Give(exchange, std::move(part), *reader);
    if (!AwaitWanted(exchange, until)) return absl::DeadlineExceededError("the upload took too long");
    ADJOIN_ASSIGN_OR_RETURN(part, reader->Next());
  }
}

// The end of the thread that sends.
class FedReader final : public ArtifactReader {
 public:
  // `call`: the reading thread's, of `calls`.
  FedReader(MountCalls& calls, uint64_t call, std::shared_ptr<Exchange> exchange, std::string folder,
            std::function<bool()> given_up, absl::Duration patience)
      : calls_(calls),
        call_(call),
        exchange_(std::move(exchange)),
        folder_(std::move(folder)),
        given_up_(std::move(given_up)),
        patience_(patience) {}
  ~FedReader() override {
    {
      absl::MutexLock lock(&exchange_->mutex);
      exchange_->over = true;
    }
    exchange_->changed.NotifyAll();
    calls_.Drop(call_);  // it may wait for room
  }

  // Waits for what is wanted.
  absl::StatusOr<std::string> Await() {
    Exchange& exchange = *exchange_;
    absl::MutexLock lock(&exchange.mutex);
    const auto given = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(exchange.mutex) {
      return !exchange.wanted || exchange.ended.has_value();
    };
    const WaitEnd end = WaitUnlessGone(exchange.changed, exchange.mutex, Deadline::After(patience_), given_up_, given);
    if (end == WaitEnd::kGone) return absl::CancelledError("the upload was given up");
    if (end == WaitEnd::kExpired) {
      if (!exchange.answer_due.has_value() || !exchange.answer_due->Expired()) {
        return absl::ResourceExhaustedError(kBusy);
      }
      return absl::DeadlineExceededError(absl::StrCat("the file system of folder '", folder_,
                                                      "' did not answer within ", absl::FormatDuration(patience_)));
    }
    if (exchange.wanted) return *exchange.ended;
    bytes_ = exchange.bytes;
    more_ = exchange.more;
    return std::move(exchange.part);
  }

  int64_t bytes() const override { return bytes_; }
  bool more() const override { return more_; }
  absl::StatusOr<std::string> Next() override {
    {
      absl::MutexLock lock(&exchange_->mutex);
      exchange_->wanted = true;
    }
    exchange_->changed.NotifyAll();
    return Await();
  }

 private:
  MountCalls& calls_;
  const uint64_t call_;
  const std::shared_ptr<Exchange> exchange_;
  const std::string folder_;
  const std::function<bool()> given_up_;
  const absl::Duration patience_;
  int64_t bytes_ = 0;
  bool more_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ArtifactReader>> OpenApart(MountCalls& calls, const std::string& root,
                                                          const SendArtifact& request, std::function<bool()> given_up,
                                                          absl::Duration patience) {
  const auto exchange = std::make_shared<Exchange>();
  const absl::StatusOr<uint64_t> called =
      calls.Call([exchange, root, request,
                  patience](const MountCalls::Enter& enter) { return Feed(*exchange, root, request, patience, enter); },
                 [exchange](const absl::Status& status) {
                   {
                     absl::MutexLock lock(&exchange->mutex);
                     exchange->ended = status;
                   }
                   exchange->changed.NotifyAll();
                 });
  if (absl::IsUnavailable(called.status())) return called.status();
  if (!called.ok()) return absl::ResourceExhaustedError(kBusy);
  auto reader = std::make_unique<FedReader>(calls, *called, exchange, FolderOf(request), std::move(given_up), patience);
  ADJOIN_RETURN_IF_ERROR(reader->Await().status());
  return std::unique_ptr<ArtifactReader>(std::move(reader));
}

}  // namespace adjoin
