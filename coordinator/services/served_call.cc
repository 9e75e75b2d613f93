#include "coordinator/services/served_call.h"

#include <chrono>

#include "absl/strings/str_cat.h"

namespace adjoin {

absl::Status ServedCall::operator()(absl::Duration limit) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(limit));
  DescribeJobResponse response;
  const grpc::Status status = stub_->DescribeJob(&context, DescribeJobRequest(), &response);
  switch (status.error_code()) {
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return absl::ResourceExhaustedError(absl::StrCat("no thread is left for calls: ", status.error_message()));
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return absl::DeadlineExceededError(absl::StrCat("a call is not answered within ", absl::FormatDuration(limit)));
    case grpc::StatusCode::UNAVAILABLE: return absl::UnavailableError(status.error_message());
    default: return absl::OkStatus();
  }
}

}  // namespace adjoin
