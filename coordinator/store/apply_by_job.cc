#include "coordinator/store/apply_by_job.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "base/status_macros.h"

namespace adjoin {
namespace {

// Calls `visit(rows, number_of)` for each kind of rows that belong to jobs.
template <typename Visit>
void VisitRows(StoreChanges& changes, const Visit& visit) {
  visit(changes, &StoreChanges::submissions, [](const StoredSubmission& row) { return row.job(); });
  visit(changes, &StoreChanges::jobs, [](const StoredJob& row) { return row.number(); });
  visit(changes, &StoreChanges::plans, [](const StoredPlan& row) { return row.job(); });
  visit(changes, &StoreChanges::attempts, [](const StoredAttempt& row) { return row.job(); });
  visit(changes, &StoreChanges::events, [](const JobEvent& row) { return JobNumberOf(row.job_id()); });
  visit(changes, &StoreChanges::keys, [](const StoredKey& row) { return row.job; });
  visit(changes, &StoreChanges::folders, [](const StoredFolder& row) { return row.job; });
  visit(changes, &StoreChanges::forgotten, [](uint64_t number) { return number; });
}

std::vector<uint64_t> JobsOf(StoreChanges& changes) {
  std::set<uint64_t> jobs;
  VisitRows(changes, [&](StoreChanges& from, auto rows, auto number_of) {
    for (const auto& row : from.*rows) jobs.insert(number_of(row));
  });
  return {jobs.begin(), jobs.end()};
}

// Takes the rows of these jobs out of `changes`.
StoreChanges Take(StoreChanges& changes, const std::set<uint64_t>& jobs) {
  StoreChanges taken;
  VisitRows(changes, [&](StoreChanges& from, auto rows, auto number_of) {
    auto first = std::stable_partition((from.*rows).begin(), (from.*rows).end(),
                                       [&](const auto& row) { return jobs.count(number_of(row)) == 0; });
    (taken.*rows).assign(std::make_move_iterator(first), std::make_move_iterator((from.*rows).end()));
    (from.*rows).erase(first, (from.*rows).end());
  });
  return taken;
}

// `changes` were refused as a whole.
absl::Status ApplyHalves(Store& store, StoreChanges changes, const absl::Status& why, StoreChanges* left,
                         std::vector<RefusedJob>* refused) {
  const std::vector<uint64_t> jobs = JobsOf(changes);
  if (jobs.size() <= 1) {
    refused->push_back({jobs.empty() ? 0 : jobs[0], why});
    return absl::OkStatus();
  }
  StoreChanges first = Take(changes, {jobs.begin(), jobs.begin() + static_cast<std::ptrdiff_t>(jobs.size() / 2)});
  absl::Status status;
  for (StoreChanges* half : {&first, &changes}) {
    if (status.ok()) status = store.Apply(*half);
    if (status.ok()) continue;
    if (IsRefusedRow(status)) {
      status = ApplyHalves(store, std::move(*half), status, left, refused);
    } else {
      left->Append(std::move(*half));
    }
  }
  return status;
}

}  // namespace

bool IsRefusedRow(const absl::Status& status) { return absl::IsInvalidArgument(status) || absl::IsInternal(status); }

absl::Status ApplyByJob(Store& store, const StoreChanges& changes, std::vector<RefusedJob>* refused,
                        std::optional<StoreChanges>* left) {
  const absl::Status whole = store.Apply(changes);
  if (!IsRefusedRow(whole)) return whole;
  StoreChanges numbers;
  numbers.last_epoch = changes.last_epoch;
  numbers.last_job = changes.last_job;
  numbers.age = changes.age;
  ADJOIN_RETURN_IF_ERROR(store.Apply(numbers));
  StoreChanges rows = changes;
  rows.last_epoch = rows.last_job = 0;
  rows.age.reset();
  rows.DropReplaced();  // rows are written by job from now on, so that the last row of a key need not be the last
                        // written
  StoreChanges unwritten;
  const absl::Status status = ApplyHalves(store, std::move(rows), whole, &unwritten, refused);
  if (!status.ok()) *left = std::move(unwritten);
  return status;
}

}  // namespace adjoin
