#include "coordinator/decisions/data_checks.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/printable_text.h"
#include "planner/spec/whole_volumes.h"
#include "proto/message_limits.h"

namespace adjoin {
namespace {

constexpr absl::Duration kAnswerGrace = absl::Seconds(5);  // for the answer of a worker that gave up at its limit
constexpr absl::Duration kFirstPause = absl::Seconds(30);  // doubles up to the longest
constexpr absl::Duration kLongestPause = absl::Minutes(10);
constexpr uint32_t kMostChecks = 64;  // of one worker at once, whatever it offers
constexpr size_t kMaxErrorsBytes = kMaxErrorBytes / 2;

absl::Duration NextPause(absl::Duration last) {
  return last == absl::ZeroDuration() ? kFirstPause : std::min(2 * last, kLongestPause);
}

// The sums go into the plan, as they are.
bool IsWellFormed(const FileSums& sums) {
  return sums.bytes() >= 0 && sums.chunk_bytes() > 0 && sums.sum_size() <= kMostFileSums &&
         std::all_of(sums.sum().begin(), sums.sum().end(), [](const std::string& sum) {
           return sum.size() == 32 && std::all_of(sum.begin(), sum.end(), absl::ascii_isxdigit);
         });
}

size_t RoomOf(const WorkerRecord& worker) {
  return std::min(std::max<uint32_t>(1, worker.hello.data_checks()), kMostChecks);
}

}  // namespace

std::optional<DatasetSize> SizeWithoutFiles(const Dataset& dataset) {
  if (dataset.field().empty()) return std::nullopt;
  DatasetSize size;
  size.set_name(dataset.name());
  size.set_samples(dataset.field(0).synthetic().samples());
  for (const Field& field : dataset.field()) {
    if (!field.has_synthetic() || field.synthetic().samples() != size.samples()) return std::nullopt;
  }
  return size;
}

std::optional<std::vector<DatasetSize>> SizesWithoutFiles(const JobSpec& spec) {
  if (spec.has_weights()) return std::nullopt;
  std::vector<DatasetSize> sizes;
  for (const Dataset& dataset : spec.dataset()) {
    std::optional<DatasetSize> size = SizeWithoutFiles(dataset);
    if (!size.has_value()) return std::nullopt;
    sizes.push_back(*std::move(size));
  }
  return sizes;
}

void DataChecks::Add(JobRecord& job) {
  Restore(job);
  AskWorkers();
}

void DataChecks::Restore(const JobRecord& job) {
  Check& check = checks_[job.number];
  check = Check();
  check.owner = job.owner;
  Wait(job.number);
}

void DataChecks::Wait(uint64_t number) {
  const Check& check = checks_.at(number);
  JobRecord& job = *jobs_.Find(number);
  job.data_check = DataCheck::kWaits;
  if (!job.accepted) not_accepted_.insert(number);
  if (check.not_before > options_.Now()) {
    later_.insert({check.not_before, number});
  } else {
    waiting_[check.owner].insert(number);
  }
}

void DataChecks::Drop(uint64_t number) {
  auto found = checks_.find(number);
  if (found == checks_.end()) return;
  const Check& check = found->second;
  later_.erase({check.not_before, number});
  if (auto own = waiting_.find(check.owner); own != waiting_.end()) {
    own->second.erase(number);
    if (own->second.empty()) waiting_.erase(own);
  }
  not_accepted_.erase(number);
  checks_.erase(found);
}

JobRecord* DataChecks::TakeBack(const std::string& worker, uint64_t number) {
  auto found = checks_.find(number);
  if (found == checks_.end() || found->second.worker != worker) return nullptr;
  Check& check = found->second;
  asked_.erase({check.deadline, number});
  if (auto checker = checkers_.find(worker); checker != checkers_.end()) checker->second.jobs.erase(number);
  if (auto own = under_way_.find(check.owner); own != under_way_.end() && --own->second == 0) under_way_.erase(own);
  check.worker.clear();
  return jobs_.Find(number);
}

void DataChecks::Remove(const JobRecord& job) {
  auto found = checks_.find(job.number);
  if (found == checks_.end()) return;
  if (const std::string worker = found->second.worker; !worker.empty()) {
    TakeBack(worker, job.number);
    CoordinatorMessage message;
    message.mutable_cancel_probe()->set_request_id(job.id);
    workers_.Send(worker, 0, std::move(message), /*urgent=*/true);
  }
  Drop(job.number);
  AskWorkers();
}

// ---------------------------------------------------------------------------------------------------------------------
// Which job, and which worker

void DataChecks::Count() {
  is_counted_ = true;
  room_ = 0;
  for (const auto& [name, worker] : workers_.All()) {
    if (workers_.IsUsable(worker)) room_ += static_cast<int>(RoomOf(worker));
  }
}

void DataChecks::WorkersChanged() {
  is_counted_ = false;
  AskWorkers();
}

void DataChecks::AcceptAll() {
  const std::set<uint64_t> numbers = std::move(not_accepted_);
  not_accepted_.clear();
  for (uint64_t number : numbers) callbacks_.accept(*jobs_.Find(number));
}

// The owners share the room. One who has some may take more only while that leaves half as much free, so that one who
// has none finds some.
std::optional<uint64_t> DataChecks::NextJob(const std::set<std::string>& passed_over) {
  if (waiting_.empty()) return std::nullopt;
  if (!is_counted_) Count();
  const int free = room_ - static_cast<int>(asked_.size());
  std::optional<uint64_t> next;
  int fewest = 0;
  for (const auto& [owner, numbers] : waiting_) {
    auto own = under_way_.find(owner);
    const int under_way = own == under_way_.end() ? 0 : own->second;
    if (passed_over.count(owner) > 0 || (under_way > 0 && under_way >= 2 * free)) continue;
    if (next.has_value() && std::pair(under_way, *numbers.begin()) >= std::pair(fewest, *next)) continue;
    next = *numbers.begin();
    fewest = under_way;
  }
  return next;
}

DataChecks::Search DataChecks::FindWorker(Check& check, const std::optional<WeightsSource>& weights,
                                          std::string* worker) {
  const std::map<std::string, WorkerRecord>& all = workers_.All();
  bool usable = false, sees = false, untried = false, preferred = false;
  size_t fewest = 0, fewest_disfavoured = 0;
  std::string best, disfavoured;
  auto at = all.upper_bound(last_asked_);
  for (size_t seen = 0; seen < all.size(); ++seen, ++at) {
    if (at == all.end()) at = all.begin();
    const auto& [name, record] = *at;
    if (!workers_.IsUsable(record)) continue;
    usable = true;
    if (weights.has_value() && !weights->IsSeenBy(name, record)) continue;
    sees = true;
    if (std::find(check.tried.begin(), check.tried.end(), name) != check.tried.end()) continue;
    untried = true;
    auto checker = checkers_.find(name);
    const size_t jobs = checker == checkers_.end() ? 0 : checker->second.jobs.size();
    const bool avoided = checker != checkers_.end() && checker->second.not_before > options_.Now();
    preferred = preferred || !avoided;
    if (jobs >= RoomOf(record)) continue;
    std::string& candidate = avoided ? disfavoured : best;
    size_t& least = avoided ? fewest_disfavoured : fewest;
    if (candidate.empty() || jobs < least) {
      candidate = name;
      least = jobs;
    }
    if (!avoided && jobs == 0) break;
  }
  if (!usable) return Search::kNoWorker;
  if (!sees) {
    check.errors = absl::StrCat("weights.from_job: what ", weights->job, " wrote is on worker ", weights->workers[0],
                                ", which is not connected");
  }
  if (!untried) return Search::kAllTried;
  *worker = preferred ? best : disfavoured;
  return worker->empty() ? Search::kBusy : Search::kFound;
}

void DataChecks::AskWorkers() {
  if (asking_) return;  // a callback below has changed something: the loop sees it
  asking_ = true;
  std::set<std::string> passed_over;  // owners whose first job waits for a particular worker
  while (std::optional<uint64_t> number = NextJob(passed_over)) {
    Check& check = checks_.at(*number);
    JobRecord& job = *jobs_.Find(*number);
    std::optional<WeightsSource> weights;
    if (!job.spec.weights().from_job().empty()) {
      absl::StatusOr<WeightsSource> found = FindWeights(jobs_, workers_, job.spec.weights());
      if (!found.ok()) {
        Fail(job, "weights.from_job", found.status());
        continue;
      }
      weights = *std::move(found);
    }
    std::string worker;
    const Search search = FindWorker(check, weights, &worker);
    if (search == Search::kFound) {
      Ask(*number, weights, worker);
    } else if (search == Search::kAllTried) {
      GiveUp(job);
    } else if (search == Search::kBusy && (!check.tried.empty() || weights.has_value())) {
      passed_over.insert(check.owner);
    } else {
      if (search == Search::kNoWorker) AcceptAll();
      break;
    }
  }
  asking_ = false;
}

void DataChecks::Ask(uint64_t number, const std::optional<WeightsSource>& weights, const std::string& worker) {
  Check& check = checks_.at(number);
  auto own = waiting_.find(check.owner);
  own->second.erase(number);
  if (own->second.empty()) waiting_.erase(own);
  not_accepted_.erase(number);
  check.worker = worker;
  check.deadline = options_.Now() + options_.probe_timeout + kAnswerGrace;
  asked_.insert({check.deadline, number});
  ++under_way_[check.owner];
  checkers_[worker].jobs.insert(number);
  last_asked_ = worker;

  JobRecord& job = *jobs_.Find(number);
  job.data_check = DataCheck::kAsked;
  job.checked_by = worker;
  CoordinatorMessage message;
  ProbeData& probe = *message.mutable_probe_data();
  probe.set_request_id(job.id);
  probe.set_limit_seconds(absl::ToDoubleSeconds(options_.probe_timeout));
  *probe.mutable_dataset() = job.spec.dataset();
  if (std::any_of(job.spec.dataset().begin(), job.spec.dataset().end(), HasWholeVolumes)) {
    *probe.mutable_job() = job.spec;
  }
  job.weights = weights.has_value() ? weights->published : "";
  check.checkpoint = weights.has_value() ? weights->checkpoint : CheckpointRead();
  if (weights.has_value()) {
    *probe.mutable_model() = ProbeOf(job.spec.weights(), *weights, job.model);
  } else if (job.spec.has_weights()) {
    *probe.mutable_model()->mutable_weights() = job.spec.weights();
    *probe.mutable_model()->mutable_tensor() = {job.model.begin(), job.model.end()};
  }
  workers_.Send(worker, 0, std::move(message), /*urgent=*/true);
}

// ---------------------------------------------------------------------------------------------------------------------
// Answers, and their absence

void DataChecks::OnResult(const std::string& worker, const ProbeResult& result) {
  JobRecord* job = jobs_.Find(result.request_id());
  if (job == nullptr || TakeBack(worker, job->number) == nullptr) return AskWorkers();
  if (result.undecided()) {
    CouldNot(*job, worker, result.error());
    return AskWorkers();
  }
  const bool chooses = result.error().empty() && !job->spec.weights().from_job().empty() && job->weights.empty();
  if (chooses && !result.weights().empty() && !IsFor(checks_.at(job->number).checkpoint, result.weights())) {
    CouldNot(*job, worker, "it names another checkpoint than it was asked for");
    return AskWorkers();
  }
  if (result.error().empty() && result.has_weights_file() && !IsWellFormed(result.weights_file())) {
    CouldNot(*job, worker, "its checksums of the file of weights are none");
    return AskWorkers();
  }
  checkers_[worker].pause = absl::ZeroDuration();
  if (!result.error().empty()) {
    Fail(*job, result.field(),
         absl::InvalidArgumentError(
             absl::StrCat(PrintableText(result.error(), kMaxErrorBytes), " (as ", worker, " sees it)")));
    return AskWorkers();
  }
  if (chooses) job->weights = result.weights();
  if (chooses && job->weights.empty()) {
    Fail(*job, "weights.from_job",
         absl::InternalError(absl::StrCat("weights.from_job: ", worker,
                                          " does not say which checkpoint it chose;"
                                          " is it of an older release?")));
    return AskWorkers();
  }
  FoundWeights(*job, worker, result);
  Drop(job->number);
  job->check_problem.clear();
  callbacks_.on_passed(*job, {result.dataset().begin(), result.dataset().end()});
  AskWorkers();
}

// From now on the job is of these weights, on nodes that see them.
void DataChecks::FoundWeights(JobRecord& job, const std::string& worker, const ProbeResult& result) {
  job.weights_file.reset();
  const Weights& weights = job.spec.weights();
  if (weights.from_job().empty() && weights.from_output().empty()) return;
  if (result.has_weights_file()) job.weights_file = result.weights_file();
  job.input_worker = worker;
  job.input_root = workers_.At(worker).hello.output_id();
}

// `field`: what the error is about, as in ProbeResult.
void DataChecks::Fail(JobRecord& job, const std::string& field, const absl::Status& why) {
  Drop(job.number);
  job.check_problem.clear();
  const std::string location = job.place_of == nullptr ? "" : job.place_of(field);
  callbacks_.on_failed(
      job, absl::Status(why.code(), absl::StrCat(location, location.empty() ? "" : ": ", std::string(why.message()))));
}

void DataChecks::CouldNot(JobRecord& job, const std::string& worker, const std::string& error) {
  Checker& checker = checkers_[worker];
  checker.pause = NextPause(checker.pause);
  checker.not_before = options_.Now() + checker.pause;
  Check& check = checks_.at(job.number);
  check.tried.push_back(worker);
  absl::StrAppend(&check.errors, check.errors.empty() ? "" : "; ", worker, ": ",
                  PrintableText(error, kMaxErrorsBytes / kTries));
  if (check.tried.size() >= kTries) return GiveUp(job);
  Wait(job.number);
}

void DataChecks::GiveUp(JobRecord& job) {
  Check& check = checks_.at(job.number);
  const std::string errors = check.errors;
  if (!job.accepted) {
    Drop(job.number);
    return callbacks_.on_failed(
        job, absl::DeadlineExceededError(absl::StrCat("its data files could not be checked (", errors, ")")));
  }
  // A file server that is away comes back; a user who waits for the answer is not there any more.
  if (auto own = waiting_.find(check.owner); own != waiting_.end()) {
    own->second.erase(job.number);
    if (own->second.empty()) waiting_.erase(own);
  }
  job.check_problem = errors;
  check.tried.clear();
  check.errors.clear();
  check.pause = NextPause(check.pause);
  check.not_before = options_.Now() + check.pause;
  Wait(job.number);
}

void DataChecks::ForgetWorker(const std::string& worker) {
  auto checker = checkers_.find(worker);
  if (checker == checkers_.end()) return;
  const std::set<uint64_t> numbers = std::move(checker->second.jobs);
  checkers_.erase(checker);
  for (uint64_t number : numbers) {
    if (TakeBack(worker, number) != nullptr) Wait(number);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Time

bool DataChecks::Tick() {
  const absl::Duration now = options_.Now();
  bool changed = false;
  while (!asked_.empty() && asked_.begin()->first <= now) {
    const uint64_t number = asked_.begin()->second;
    const std::string worker = checks_.at(number).worker;
    JobRecord& job = *TakeBack(worker, number);
    CoordinatorMessage message;
    message.mutable_cancel_probe()->set_request_id(job.id);
    workers_.Send(worker, 0, std::move(message), /*urgent=*/true);
    CouldNot(job, worker,
             absl::StrCat("did not answer within ", absl::FormatDuration(options_.probe_timeout + kAnswerGrace)));
    changed = true;
  }
  while (!later_.empty() && later_.begin()->first <= now) {
    const uint64_t number = later_.begin()->second;
    later_.erase(later_.begin());
    waiting_[checks_.at(number).owner].insert(number);
    changed = true;
  }
  if (changed || !waiting_.empty()) WorkersChanged();
  return changed;
}

void DataChecks::ForgivePause(absl::Duration pause) {
  std::set<std::pair<absl::Duration, uint64_t>> asked;
  for (const auto& [deadline, number] : asked_) {
    checks_.at(number).deadline = deadline + pause;
    asked.insert({deadline + pause, number});
  }
  asked_ = std::move(asked);
}

}  // namespace adjoin
