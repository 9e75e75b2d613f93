#include "bench/open_pages.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/page/page_client.h"

namespace adjoin {
namespace {

constexpr absl::Duration kBetween = absl::Seconds(2);  // as in app.js

// What stands between quotes after `before` in `text`.
std::vector<std::string> Quoted(const std::string& text, const std::string& before) {
  std::vector<std::string> found;
  for (size_t at = text.find(before); at != std::string::npos; at = text.find(before, at + 1)) {
    const size_t begin = at + before.size();
    found.push_back(text.substr(begin, text.find('"', begin) - begin));
  }
  return found;
}

}  // namespace

OpenPages::OpenPages(Settings settings) : settings_(std::move(settings)) {
  for (int i = 0; i < settings_.count; ++i) threads_.emplace_back([this, i] { Look(i); });
}

void OpenPages::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

OpenPages::Times OpenPages::TakeTimes() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(times_, {});
}

std::optional<std::string> OpenPages::Ask(const std::string& path) {
  const absl::StatusOr<PageResponse> answer = PageClient(settings_.port).Get(path);
  if (answer.ok() && answer->status == 200) return answer->body;
  absl::MutexLock lock(&mutex_);
  if (times_.failed++ == 0) {
    times_.failure = absl::StrCat(
        path, ": ",
        answer.ok() ? absl::StrCat(answer->status, " ", answer->body) : std::string(answer.status().message()));
  }
  return std::nullopt;
}

bool OpenPages::AskAll(const std::vector<std::string>& paths) {
  return std::all_of(paths.begin(), paths.end(), [&](const std::string& path) { return Ask(path).has_value(); });
}

bool OpenPages::LoadFiles() {
  const std::optional<std::string> document = Ask("/");
  if (!document.has_value()) return false;
  std::vector<std::string> names = Quoted(*document, "\"/assets/");
  for (size_t i = 0; i < names.size(); ++i) {
    const std::optional<std::string> text = Ask("/assets/" + names[i]);
    if (!text.has_value()) return false;
    for (const std::string& imported : Quoted(*text, " from \"./")) {
      if (std::find(names.begin(), names.end(), imported) == names.end()) names.push_back(imported);
    }
  }
  return true;
}

void OpenPages::Look(int number) {
  const std::string& job = settings_.jobs[static_cast<size_t>(number) % settings_.jobs.size()];
  const std::vector<std::vector<std::string>> views = {{"/api/jobs?page_size=50", "/api/workers?count=0"},
                                                       {"/api/workers?from=0&count=50"},
                                                       {absl::StrCat("/api/jobs/", job)}};
  const std::vector<std::string>& view = views[static_cast<size_t>(number) % views.size()];
  const absl::Time opening = absl::Now();
  const bool opened = LoadFiles() && Ask("/api/me").has_value() && AskAll(view);
  absl::MutexLock lock(&mutex_);
  if (opened) times_.opened.push_back(absl::ToDoubleSeconds(absl::Now() - opening));
  while (!mutex_.AwaitWithTimeout(absl::Condition(&stopping_), kBetween)) {
    mutex_.Unlock();
    const absl::Time begin = absl::Now();
    const bool refreshed = AskAll(view);
    const double seconds = absl::ToDoubleSeconds(absl::Now() - begin);
    mutex_.Lock();
    if (refreshed) times_.refreshed.push_back(seconds);
  }
}

}  // namespace adjoin
