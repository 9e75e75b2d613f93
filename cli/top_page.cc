#include "cli/top_page.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/printable_text.h"
#include "base/text_table.h"
#include "cli/color.h"
#include "cli/terminal.h"
#include "cli/text.h"
#include "cli/worker_rows.h"

namespace adjoin {
namespace {

using Rows = std::vector<std::vector<std::string>>;

constexpr char kReverse[] = "\x1b[7m", kPlain[] = "\x1b[0m";
constexpr const char* kOrderNames[] = {"state", "job", "name", "part done", "time left", "steps/s"};
constexpr int kOrders = 6;

// What needs attention first: what runs, what comes next, what has ended.
int Rank(JobState state) {
  switch (state) {
    case RUNNING: return 0;
    case STARTING: return 1;
    case PENDING: return 2;
    case FAILED: return 3;
    default: return 4;
  }
}

double Done(const JobSummary& job) {
  if (job.state() == SUCCEEDED) return 1;
  const JobProgress& progress = job.progress();
  if (progress.total_steps() == 0) return 0;
  return std::min(1.0, static_cast<double>(progress.step()) / static_cast<double>(progress.total_steps()));
}

// It has done steps, and so has a speed.
bool Runs(const JobSummary& job) { return job.state() == RUNNING && job.progress().steps_per_second() > 0; }

double Left(const JobSummary& job) { return Runs(job) ? job.progress().seconds_left() : 1e300; }

double Speed(const JobSummary& job) { return Runs(job) ? job.progress().steps_per_second() : -1; }

std::string StateText(const JobSummary& job) {
  std::string state = StateName(job.state());
  if (job.held()) return state + " (held)";
  if (job.queue_position() > 0) absl::StrAppend(&state, " (", job.queue_position(), ")");
  return state;
}

// Why it waits or failed; of a job that runs what it does besides training.
std::string NoteText(const JobSummary& job) {
  if (!job.reason().empty()) return job.reason();
  const std::string& phase = job.progress().phase();
  return job.state() == RUNNING && phase != "training" ? phase : "";
}

std::vector<std::string> RowOf(const JobSummary& job) {
  const JobProgress& progress = job.progress();
  const bool steps = progress.total_steps() > 0 && job.state() != PENDING;
  const bool trains = progress.phase().empty() || progress.phase() == "training";
  const bool loss = steps && trains && progress.step() > progress.resumed_step();
  return {job.job_id(),
          job.name(),
          StateText(job),
          absl::StrCat(job.ranks()),
          steps ? absl::StrCat(progress.step(), "/", progress.total_steps()) : "",
          steps ? absl::StrFormat("%.0f%%", 100 * Done(job)) : "",
          Runs(job) ? DurationText(progress.seconds_left()) : "",
          loss ? absl::StrFormat("%.4g", progress.loss()) : "",
          Runs(job) ? absl::StrFormat("%.1f", progress.steps_per_second()) : "",
          NoteText(job)};
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

// The first so many, and a line that says how many more there are.
std::vector<std::string> Shortened(std::vector<std::string> lines, size_t most, const char* what) {
  if (lines.size() <= most || most == 0) return lines;
  const size_t more = lines.size() - most + 1;
  lines.resize(most - 1);
  lines.push_back(absl::StrCat("and ", more, " more ", what));
  return lines;
}

}  // namespace

void TopPage::Set(ListJobsResponse list) {
  list_ = std::move(list);
  Sort();
}

void TopPage::SetDetails(const std::string& job, std::string text) {
  if (job == looked_at_) details_ = std::move(text);
}

void TopPage::Sort() {
  order_.resize(static_cast<size_t>(list_.job_size()));
  std::iota(order_.begin(), order_.end(), 0);
  const auto before = [&](int a, int b) {
    const JobSummary& x = list_.job(a);
    const JobSummary& y = list_.job(b);
    switch (sorted_by_) {
      case Order::kState: {
        const auto key = [](const JobSummary& job) {
          const bool held = job.held();
          const uint32_t place = job.queue_position() == 0 ? 0xffffffff : job.queue_position();
          return std::make_tuple(Rank(job.state()), held, job.state() == PENDING ? place : 0);
        };
        return key(x) < key(y);
      }
      case Order::kJob:
        return x.job_id().size() != y.job_id().size() ? x.job_id().size() < y.job_id().size() : x.job_id() < y.job_id();
      case Order::kName: return x.name() < y.name();
      case Order::kDone: return Done(x) > Done(y);
      case Order::kLeft: return Left(x) < Left(y);
      case Order::kSpeed: return Speed(x) > Speed(y);
    }
    return false;
  };
  std::stable_sort(order_.begin(), order_.end(), before);
  if (reversed_) std::reverse(order_.begin(), order_.end());
  // The chosen job stays the chosen one, wherever it is now; where it is gone, the one in its place.
  for (size_t row = 0; row < order_.size(); ++row) {
    if (list_.job(order_[row]).job_id() == chosen_) chosen_row_ = row;
  }
  Move(0);
}

void TopPage::Move(int by) {
  if (order_.empty()) {
    chosen_.clear();
    chosen_row_ = 0;
    return;
  }
  const int64_t last = static_cast<int64_t>(order_.size()) - 1;
  chosen_row_ = static_cast<size_t>(std::clamp<int64_t>(static_cast<int64_t>(chosen_row_) + by, 0, last));
  chosen_ = list_.job(order_[chosen_row_]).job_id();
}

bool TopPage::Press(Key key) {
  const int page = static_cast<int>(std::max<size_t>(page_, 1));
  int by = 0;
  switch (key) {
    case Key::kQuit: return false;
    case Key::kUp: by = -1; break;
    case Key::kDown: by = 1; break;
    case Key::kPageUp: by = -page; break;
    case Key::kPageDown: by = page; break;
    case Key::kHome: by = -1000000000; break;
    case Key::kEnd: by = 1000000000; break;
    case Key::kEnter:
      if (looked_at_.empty()) {
        looked_at_ = chosen_;
        details_.clear();
        first_line_ = 0;
      }
      return true;
    case Key::kBack: looked_at_.clear(); return true;
    case Key::kSort:
      sorted_by_ = static_cast<Order>((static_cast<int>(sorted_by_) + 1) % kOrders);
      Sort();
      return true;
    case Key::kReverse:
      reversed_ = !reversed_;
      Sort();
      return true;
    case Key::kRefresh: return true;
  }
  if (looked_at_.empty()) {
    Move(by);
  } else {  // DetailsText does not go beyond the end
    first_line_ = static_cast<size_t>(std::max<int64_t>(0, static_cast<int64_t>(first_line_) + by));
  }
  return true;
}

// "2 running, 1 pending; 1 worker, 3 of 8 slots free, 1 draining; sorted by state"
std::string TopPage::Summary() const {
  std::map<std::pair<int, std::string>, int> states;
  for (const JobSummary& job : list_.job()) ++states[{Rank(job.state()), StateName(job.state())}];
  std::vector<std::string> parts;
  for (const auto& [state, count] : states) parts.push_back(absl::StrCat(count, " ", state.second));
  const uint64_t shown = static_cast<uint64_t>(list_.job_size());
  if (list_.total_jobs() > shown) parts.push_back(absl::StrCat(list_.total_jobs() - shown, " older"));
  uint64_t slots = 0, free = 0;
  std::map<std::string, int> others;
  for (const WorkerSummary& worker : list_.worker()) {
    slots += worker.slots();
    free += worker.free_slots();
    if (worker.state() != "ready") ++others[worker.state()];
  }
  std::string text =
      absl::StrCat(parts.empty() ? "no jobs" : absl::StrJoin(parts, ", "), "; ", list_.worker_size(),
                   list_.worker_size() == 1 ? " worker, " : " workers, ", free, " of ", slots, " slots free");
  for (const auto& [state, count] : others) absl::StrAppend(&text, ", ", count, " ", state);
  absl::StrAppend(&text, "; by ", kOrderNames[static_cast<int>(sorted_by_)], reversed_ ? ", reversed" : "");
  return PrintableText(text);
}

std::string TopPage::ListText(size_t width, size_t height) {
  Rows rows = {{"JOB", "NAME", "STATE", "RANKS", "STEP", "DONE", "LEFT", "LOSS", "STEPS/S", "NOTE"}};
  for (const int job : order_) rows.push_back(RowOf(list_.job(job)));
  std::vector<std::string> jobs = Lines(TextTable(rows, {.indent = options_.marks ? size_t{2} : 0, .gap = 2}));
  std::vector<std::string> workers;
  if (!list_.worker().empty()) workers = Lines(TextTable(WorkerRows(list_)));

  std::vector<std::string> lines = {absl::StrCat("adjoin top ", PrintableText(options_.coordinator), ": ", Summary())};
  if (!list_.notice().empty()) lines.push_back("coordinator: " + PrintableText(list_.notice()));
  if (!notice_.empty()) lines.push_back(PrintableText(notice_));
  lines.push_back("");
  const std::vector<std::string> keys =
      options_.marks
          ? std::vector<std::string>{"",
                                     "q quit   up, down choose   enter details   s sort by another column   r reverse"}
          : std::vector<std::string>{};
  // Workers get a third of the screen at most, unless the jobs need less than the rest.
  size_t room = jobs.size();
  if (height > 0) {
    const size_t left = height - std::min(height, lines.size() + keys.size() + 1);  // 1: between jobs and workers
    const size_t for_workers = std::max(left / 3, left - std::min(left, jobs.size()));
    workers = Shortened(std::move(workers), std::max<size_t>(for_workers, 1), "workers");
    room = std::max<size_t>(left - std::min(left, workers.size()), 2);
  }
  const size_t heading = 1;
  page_ = std::max<size_t>(std::min(room, jobs.size()) - heading, 1);
  if (chosen_row_ < first_row_) first_row_ = chosen_row_;
  if (chosen_row_ >= first_row_ + page_) first_row_ = chosen_row_ - page_ + 1;
  first_row_ = std::min(first_row_, order_.size() - std::min(order_.size(), page_));

  lines.push_back(jobs[0]);
  size_t chosen_line = 0;
  for (size_t row = first_row_; row < std::min(order_.size(), first_row_ + page_); ++row) {
    if (row == chosen_row_ && options_.marks) {
      chosen_line = lines.size();
      jobs[row + heading][0] = '>';
    }
    lines.push_back(jobs[row + heading]);
  }
  if (order_.empty()) lines.push_back(options_.marks ? "  no jobs" : "no jobs");
  lines.push_back("");
  lines.insert(lines.end(), workers.begin(), workers.end());
  if (workers.empty()) lines.push_back("no workers");
  if (height > 0 && lines.size() + keys.size() > height) lines.resize(height - std::min(height, keys.size()));
  lines.insert(lines.end(), keys.begin(), keys.end());
  if (height > 0 && lines.size() > height) lines.resize(height);

  std::string text = CutLines(absl::StrCat(absl::StrJoin(lines, "\n"), "\n"), width);
  if (options_.color) text = PaintStates(text);
  if (chosen_line == 0 || chosen_line >= lines.size()) return text;
  std::vector<std::string> drawn = Lines(text);
  drawn[chosen_line] = absl::StrCat(
      kReverse, absl::StrReplaceAll(drawn[chosen_line], {{kPlain, absl::StrCat(kPlain, kReverse)}}), kPlain);
  return absl::StrCat(absl::StrJoin(drawn, "\n"), "\n");
}

std::string TopPage::DetailsText(size_t width, size_t height) {
  const std::string cut = CutLines(details_, width);
  std::vector<std::string> details = Lines(options_.color ? PaintStates(PaintStateAfter("state", cut)) : cut);
  if (details.empty()) details = {"asks the coordinator ..."};
  const char* keys = "q quit   left, esc back to the jobs   up, down scroll";
  std::vector<std::string> lines;
  if (!notice_.empty()) lines.push_back(CutLines(PrintableText(notice_), width));
  const size_t room = height == 0 ? details.size() : height - std::min(height, lines.size() + 2);
  page_ = std::max<size_t>(room, 1);
  first_line_ = std::min(first_line_, details.size() - std::min(details.size(), page_));
  for (size_t i = first_line_; i < std::min(details.size(), first_line_ + page_); ++i) lines.push_back(details[i]);
  lines.push_back("");
  lines.push_back(CutLines(keys, width));
  if (height > 0 && lines.size() > height) lines.resize(height);
  return absl::StrCat(absl::StrJoin(lines, "\n"), "\n");
}

std::string TopPage::Text(size_t width, size_t height) {
  return looked_at_.empty() ? ListText(width, height) : DetailsText(width, height);
}

}  // namespace adjoin
