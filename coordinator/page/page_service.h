// The web page of the coordinator: jobs, their curves, logs and plans, and the workers, for a browser.
//
//   PageService page({.calls = calls, .access = *access, .hub = hub, .planner = planner});
//   HttpServer::Start(endpoint, tls, {}, [&](const HttpRequest& request) { return page.Answer(request); });
//
// Who calls, and what the caller may see and do, is decided by Access and UserCalls, as for the command. Without a
// certificate or token there is an answer to nothing but the form to sign in with a token. Text that users wrote is
// sent as JSON, or as text in a page of its own without scripts; no answer has a script but the files of assets/.
//
//   GET  /, /assets/NAME                      the page itself
//   GET  /api/me                              who the caller is
//   GET  /api/jobs?page_size=&page_token=&owner=&state=      a page of ListJobsResponse
//   GET  /api/workers?from=&count=            a page of its workers
//   GET  /api/jobs/JOB?spec=1&ranks_from=     DescribeJobResponse with some of its ranks, and what the caller may do
//   GET  /api/jobs/JOB/events?after=          ReadEventsResponse
//   GET  /api/jobs/JOB/logs?from=&before=&rank=           ReadLogsResponse
//   GET  /api/jobs/JOB/metrics?from=&epoch=&most=         lines of metrics.jsonl
//   GET  /api/jobs/JOB/timeline?file=&step=&first_rank=   a step of a trace
//   GET  /api/jobs/JOB/plan.html              planner/picture's page of its plan
//   GET  /api/difference?a=JOB&b=JOB          what differs in two specs
//   POST /api/jobs/JOB/cancel, hold, release, retry, trace?steps=
//   GET, POST /sign-in, POST /sign-out
#ifndef ADJOIN_COORDINATOR_PAGE_PAGE_SERVICE_H_
#define ADJOIN_COORDINATOR_PAGE_PAGE_SERVICE_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/page/http_server.h"
#include "coordinator/page/page_answers.h"
#include "coordinator/page/request_shares.h"
#include "coordinator/services/access.h"

namespace adjoin {

// Any thread.
class PageService {
 public:
  // `access` and `answers` outlive the service.
  PageService(Access& access, PageAnswers& answers, const RequestShares::Limits& limits);
  PageService(Access& access, PageAnswers& answers) : PageService(access, answers, RequestShares::Limits()) {}

  // Answers every request, also with an error.
  HttpResponse Answer(const HttpRequest& request);

 private:
  HttpResponse AnswerPage(const HttpRequest& request);
  HttpResponse AnswerApi(const HttpRequest& request);
  HttpResponse AnswerSignIn(const HttpRequest& request);
  absl::StatusOr<HttpResponse> Route(const HttpRequest& request);
  // Lets the caller in to the call `method` of the service Adjoin, and calls `make`.
  absl::StatusOr<HttpResponse> Call(const HttpRequest& request, absl::string_view method, RequestCost cost,
                                    const std::function<absl::StatusOr<std::string>(const Caller&)>& make);
  // By the token of the cookie; where that is refused, as one that has expired is, by the client's certificate, if it
  // showed one. `cookie_refused` may be null.
  absl::StatusOr<Admitted> Admit(const HttpRequest& request, absl::string_view method, bool* cookie_refused = nullptr);

  Access& access_;
  PageAnswers& answers_;
  RequestShares shares_;
};

}  // namespace adjoin

#endif  // ADJOIN_COORDINATOR_PAGE_PAGE_SERVICE_H_
