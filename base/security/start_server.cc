#include "base/security/start_server.h"

#include <grpc/support/log.h>

#include <string>
#include <utility>

#include "absl/base/const_init.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/printable_text.h"
#include "base/status_macros.h"

namespace adjoin {
namespace {

constexpr size_t kShownBytes = 500;

ABSL_CONST_INIT absl::Mutex errors_mutex(absl::kConstInit);
std::string* errors ABSL_GUARDED_BY(errors_mutex) = nullptr;  // where gRPC's go while a server starts

void KeepError(gpr_log_func_args* line) {
  absl::MutexLock lock(&errors_mutex);
  if (errors != nullptr && line->severity == GPR_LOG_SEVERITY_ERROR) absl::StrAppend(errors, line->message, " ");
}

void SetErrors(std::string* to) {
  absl::MutexLock lock(&errors_mutex);
  errors = to;
}

}  // namespace

absl::StatusOr<std::unique_ptr<grpc::Server>> StartServer(grpc::ServerBuilder& builder,
                                                          std::shared_ptr<grpc::ServerCredentials> credentials,
                                                          Endpoint* listen, const ConnectionLimits& limits) {
  SetServerLimits(builder, limits);
  int port = 0;
  builder.AddListeningPort(listen->ToString(), std::move(credentials), &port);
  std::string said;
  SetErrors(&said);
  gpr_set_log_function(&KeepError);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  gpr_set_log_function(nullptr);
  SetErrors(nullptr);
  if (server == nullptr || port == 0) {
    ADJOIN_RETURN_IF_ERROR(CheckCanListen(*listen));  // in words of our own
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", listen->ToString(), ": ",
                     said.empty() ? "gRPC does not tell why; try again" : PrintableText(said, kShownBytes)));
  }
  listen->port = port;
  return server;
}

}  // namespace adjoin
