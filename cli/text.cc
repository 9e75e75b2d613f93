#include "cli/text.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/utf8.h"

namespace adjoin {
namespace {

constexpr int kBarWidth = 24;
constexpr int kSmallestBar = 6;
constexpr double kFourDigits = 0.01;  // smaller values are shown with more than four digits after the point

std::string Number(double value) { return absl::StrFormat("%.4g", value); }

// "dice[2]": one class of "dice".
bool OfClass(const std::string& metric) { return metric.find('[') != std::string::npos; }

std::string Metrics(const JobProgress& progress) {
  std::vector<std::string> parts;
  std::vector<std::string> names;
  for (const auto& [name, value] : progress.metric()) {
    if (!OfClass(name)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    double value = progress.metric().at(name);
    bool whole = value == std::floor(value) && std::abs(value) < 1e15;
    bool small = std::abs(value) < kFourDigits;
    parts.push_back(absl::StrCat(name, " ",
                                 whole && value != 1 ? absl::StrFormat("%.0f", value)
                                 : small             ? Number(value)
                                                     : absl::StrFormat("%.4f", value)));
  }
  return absl::StrJoin(parts, ", ");
}

bool IsTraining(const JobProgress& progress) { return progress.phase().empty() || progress.phase() == "training"; }

// The loss is training's: other phases leave what training's last step reported, and before the first step of an
// attempt there is none.
bool HasLoss(const JobProgress& progress) { return IsTraining(progress) && progress.step() > progress.resumed_step(); }

std::string Bar(double part, int width) {
  int filled = static_cast<int>(part * width);
  return absl::StrCat(" [", std::string(filled, '#'), std::string(width - filled, '-'), "]");
}

}  // namespace

std::vector<std::vector<std::string>> ClassRows(const JobProgress& progress) {
  std::map<std::string, std::map<int, double>> by_metric;
  for (const auto& [name, value] : progress.metric()) {
    if (!OfClass(name)) continue;
    const size_t bracket = name.find('[');
    int number = 0;
    if (absl::SimpleAtoi(name.substr(bracket + 1, name.size() - bracket - 2), &number)) {
      by_metric[name.substr(0, bracket)][number] = value;
    }
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& [metric, classes] : by_metric) {
    rows.push_back(
        {absl::StrCat(metric, " by class"), absl::StrJoin(classes, ", ", [](std::string* out, const auto& entry) {
           absl::StrAppend(out, entry.first, ": ", absl::StrFormat("%.4f", entry.second));
         })});
  }
  return rows;
}

std::string StateName(JobState state) { return absl::AsciiStrToLower(JobState_Name(state)); }

bool IsFinalState(JobState state) { return state == SUCCEEDED || state == FAILED || state == CANCELLED; }

std::string DurationText(double seconds) {
  if (!(seconds >= 0) || seconds > 1e9) return "?";
  if (seconds < 10) return absl::StrFormat("%.1f s", seconds);
  int64_t whole = std::llround(seconds);
  if (whole < 60) return absl::StrCat(whole, " s");
  if (whole < 3600) return absl::StrCat(whole / 60, " min ", whole % 60, " s");
  return absl::StrCat(whole / 3600, " h ", whole / 60 % 60, " min");
}

std::string ProgressText(const JobProgress& progress) {
  std::vector<std::string> parts;
  if (!IsTraining(progress)) parts.push_back(progress.phase());
  if (progress.total_steps() > 0) {
    parts.push_back(absl::StrCat("step ", progress.step(), "/", progress.total_steps()));
    if (HasLoss(progress)) parts.push_back(absl::StrFormat("loss %.6g", progress.loss()));
    parts.push_back(absl::StrFormat("%.1f steps/s", progress.steps_per_second()));
  }
  return absl::StrJoin(parts, ", ");
}

std::string ProgressLine(const JobSummary& job, int width) {
  std::string line = absl::StrCat(job.job_id(), " ", StateName(job.state()));
  const JobProgress& progress = job.progress();
  if (job.state() == PENDING) {
    absl::StrAppend(&line, ": ", job.reason());
  } else if (job.state() == RUNNING && progress.total_steps() > 0) {
    double part = std::min(1.0, static_cast<double>(progress.step()) / static_cast<double>(progress.total_steps()));
    std::string rest = absl::StrFormat(" %3.0f%%", 100 * part);
    if (!IsTraining(progress)) absl::StrAppend(&rest, "  ", progress.phase());
    absl::StrAppend(&rest, "  step ", progress.step(), "/", progress.total_steps());
    if (HasLoss(progress)) absl::StrAppend(&rest, "  loss ", Number(progress.loss()));
    absl::StrAppendFormat(&rest, "  %.1f steps/s", progress.steps_per_second());
    absl::StrAppend(&rest, "  ", DurationText(progress.seconds_left()), " left");
    auto room_for_bar = [&] { return width - static_cast<int>(line.size() + rest.size()) - 3; };  // " [" and "]"
    if (room_for_bar() < kBarWidth) line = job.job_id();  // the bar shows that the job runs
    int room = room_for_bar();
    if (room >= kSmallestBar) absl::StrAppend(&line, Bar(part, std::min(room, kBarWidth)));
    absl::StrAppend(&line, rest);
  } else if (job.state() == RUNNING && !progress.phase().empty()) {
    absl::StrAppend(&line, "  ", progress.phase());
  }
  line.resize(Utf8Prefix(line, static_cast<size_t>(std::max(width, 0))));
  return line;
}

std::string EndLine(const JobSummary& job) {
  std::string line = absl::StrCat(job.job_id(), " ", StateName(job.state()));
  if (job.started_unix_ms() > 0) {
    absl::StrAppend(&line, job.state() == SUCCEEDED ? " in " : " after ",
                    DurationText(static_cast<double>(job.ended_unix_ms() - job.started_unix_ms()) / 1000));
  }
  if (job.state() == SUCCEEDED) {
    const JobProgress& progress = job.progress();
    const std::string metrics = Metrics(progress);
    if (!metrics.empty()) {
      absl::StrAppend(&line, ": ", metrics);
    } else if (progress.program() == "train" && progress.step() > progress.resumed_step()) {
      absl::StrAppend(&line, ": loss ", Number(progress.loss()), " in the last step, ", progress.step());
    }
  } else if (!job.reason().empty()) {
    absl::StrAppend(&line, ": ", job.reason());
  }
  return line;
}

}  // namespace adjoin
