#include "bench/job_watchers.h"

#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "proto/protocol.h"

namespace adjoin {

JobWatchers::JobWatchers(Settings settings, const std::vector<std::string>& jobs) : settings_(std::move(settings)) {
  listings_.resize(static_cast<size_t>(settings_.listers));
  for (std::vector<double>& seconds : listings_) {
    threads_.emplace_back([this, &seconds] { ListUntilStopped(seconds); });
  }
  for (size_t i = 0; i < static_cast<size_t>(settings_.followers) && !jobs.empty(); ++i) {
    const size_t at = i % jobs.size();
    grpc::ClientContext& context = *contexts_.emplace_back(std::make_unique<grpc::ClientContext>());
    threads_.emplace_back(
        [this, &context, job = jobs[i % 2 == 0 ? at : jobs.size() - 1 - at]] { Follow(context, job); });
  }
}

void JobWatchers::Stop() {
  stopping_ = true;
  for (const auto& context : contexts_) context->TryCancel();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

std::vector<double> JobWatchers::listings() const {
  std::vector<double> all;
  for (const std::vector<double>& each : listings_) all.insert(all.end(), each.begin(), each.end());
  return all;
}

void JobWatchers::ListUntilStopped(std::vector<double>& seconds) {
  while (!stopping_) {
    const absl::Time begin = absl::Now();
    if (!settings_.list().ok()) ++failed_;
    seconds.push_back(absl::ToDoubleSeconds(absl::Now() - begin));
  }
}

void JobWatchers::Follow(grpc::ClientContext& context, const std::string& job) {
  FollowJobRequest request;
  *request.mutable_header() = MakeHeader();
  request.set_job_id(job);
  const std::unique_ptr<Adjoin::Stub> stub = settings_.connect();
  auto reader = stub->FollowJob(&context, request);
  for (FollowJobResponse response; reader->Read(&response);) ++updates_;
  reader->Finish();
}

}  // namespace adjoin
