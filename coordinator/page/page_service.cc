#include "coordinator/page/page_service.h"

#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/printable_text.h"
#include "base/status_macros.h"
#include "coordinator/page/page_files.h"
#include "coordinator/page/request_checks.h"
#include "proto/grpc_status.h"

namespace adjoin {
namespace {

using Cost = RequestCost;

constexpr char kApi[] = "/api/";
constexpr char kSignInForm[] = "sign_in.html";
// Scripts, styles and data come from this server's own files only, and no script or style stands in a page's text.
constexpr char kPagePolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; frame-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types "
    "'none'";
constexpr char kDataPolicy[] = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
// planner/picture's page has its colours in its text, and no script.
constexpr char kPicturePolicy[] =
    "default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'self'; base-uri 'none'; form-action "
    "'none'";
constexpr char kFormPolicy[] =
    "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

int StatusOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange: return 400;
    case absl::StatusCode::kUnauthenticated: return 401;
    case absl::StatusCode::kPermissionDenied: return 403;
    case absl::StatusCode::kNotFound: return 404;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition: return 409;
    case absl::StatusCode::kResourceExhausted: return 429;
    case absl::StatusCode::kUnimplemented: return 405;
    case absl::StatusCode::kCancelled:  // the coordinator stops
    case absl::StatusCode::kUnavailable: return 503;
    case absl::StatusCode::kDeadlineExceeded: return 504;
    default: return 500;
  }
}

std::string JsonString(absl::string_view text) {
  std::string quoted = "\"";
  for (const char c : PrintableText(text)) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c == '\t' ? ' ' : c;
  }
  return quoted + "\"";
}

HttpResponse ErrorOf(const absl::Status& status) {
  HttpResponse response;
  response.status = StatusOf(status);
  response.type = "application/json";
  response.body = absl::StrCat("{\"error\": ", JsonString(StatusText(status.message())), "}\n");
  if (response.status == 429 || response.status == 503) response.headers.emplace_back("Retry-After", "2");
  return response;
}

std::string HtmlText(absl::string_view text) {
  return absl::StrReplaceAll(PrintableText(text, kMaxStatusBytes),
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

// `why`: for people, or empty.
HttpResponse SignInForm(int status, absl::string_view why) {
  const PageFile* form = FindPageFile(kSignInForm);
  HttpResponse response;
  response.status = status;
  response.type = "text/html; charset=utf-8";
  response.body = absl::StrReplaceAll(form->content, {{"{why}", HtmlText(why)}});
  response.headers.emplace_back("Content-Security-Policy", kFormPolicy);
  return response;
}

HttpResponse Redirect(const std::string& cookie) {
  HttpResponse response;
  response.status = 303;
  response.headers = {{"Location", "/"}, {"Set-Cookie", cookie}};
  return response;
}

std::string CookieText(absl::string_view token, bool ends) {
  return absl::StrCat(kTokenCookie, "=", token, "; Path=/; Secure; HttpOnly; SameSite=Lax", ends ? "; Max-Age=0" : "");
}

// The field of a form, as browsers send it: "token=3f9c0a...&...".
std::string FormField(absl::string_view body, absl::string_view name) {
  for (absl::string_view part : absl::StrSplit(body, '&')) {
    const std::pair<absl::string_view, absl::string_view> field = absl::StrSplit(part, absl::MaxSplits('=', 1));
    if (field.first == name)
      return std::string(absl::StripAsciiWhitespace(absl::StrReplaceAll(field.second, {{"+", " "}})));
  }
  return "";
}

bool IsPlainToken(absl::string_view token) {
  if (token.empty() || token.size() > 512) return false;
  for (const char c : token) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_' && c != '.') return false;
  }
  return true;
}

void AddHeaders(HttpResponse& response, bool keep) {
  bool has_policy = false;
  for (const auto& [name, value] : response.headers) has_policy = has_policy || name == "Content-Security-Policy";
  if (!has_policy) response.headers.emplace_back("Content-Security-Policy", kDataPolicy);
  response.headers.emplace_back("X-Content-Type-Options", "nosniff");
  response.headers.emplace_back("Referrer-Policy", "same-origin");
  response.headers.emplace_back("Cross-Origin-Resource-Policy", "same-origin");
  response.headers.emplace_back("Cross-Origin-Opener-Policy", "same-origin");
  response.headers.emplace_back("Cache-Control", keep ? "private, no-cache" : "no-store");
}

bool Reads(const HttpRequest& request) { return request.method == "GET" || request.method == "HEAD"; }

absl::Status WrongMethod(const HttpRequest& request, absl::string_view right) {
  return absl::UnimplementedError(absl::StrCat(PrintableText(request.method, 60), " is not the method for ",
                                               PrintableText(request.path, 200), "; right is ", right));
}

absl::Status NotThere(const HttpRequest& request) {
  return absl::NotFoundError(absl::StrCat("there is nothing at ", PrintableText(request.path, 200)));
}

// The call of the service that an action is; "" for none.
absl::string_view CallOf(absl::string_view action) {
  if (action == "cancel") return "CancelJob";
  if (action == "hold") return "HoldJob";
  if (action == "release") return "ReleaseJob";
  if (action == "retry") return "RetryJob";
  if (action == "trace") return "TraceJob";
  return "";
}

}  // namespace

PageService::PageService(Access& access, PageAnswers& answers, const RequestShares::Limits& limits)
    : access_(access), answers_(answers), shares_(limits) {}

absl::StatusOr<Admitted> PageService::Admit(const HttpRequest& request, absl::string_view method,
                                            bool* cookie_refused) {
  absl::StatusOr<Admitted> call = access_.Admit(CredentialsOf(request), method, request.peer);
  if (!absl::IsUnauthenticated(call.status()) || !ShowsCookie(request)) return call;
  if (cookie_refused != nullptr) *cookie_refused = true;
  if (request.pem.empty()) return call;
  return access_.Admit(CertificateOf(request), method, request.peer);
}

absl::StatusOr<HttpResponse> PageService::Call(const HttpRequest& request, absl::string_view method, RequestCost cost,
                                               const std::function<absl::StatusOr<std::string>(const Caller&)>& make) {
  ADJOIN_ASSIGN_OR_RETURN(const Admitted call, Admit(request, method));
  const Caller& caller = call.caller();
  ADJOIN_RETURN_IF_ERROR(shares_.Enter(caller, cost));
  const absl::Cleanup leave = [&] { shares_.Leave(caller, cost); };
  HttpResponse response;
  response.type = "application/json";
  if (!caller.local) response.caller = ToString(caller);
  ADJOIN_ASSIGN_OR_RETURN(response.body, make(caller));
  return response;
}

absl::StatusOr<HttpResponse> PageService::Route(const HttpRequest& request) {
  const std::vector<std::string> parts = absl::StrSplit(request.path.substr(sizeof(kApi) - 1), '/');
  const bool of_job = parts[0] == "jobs" && parts.size() >= 2;
  const std::string job = of_job ? parts[1] : "";
  const std::string what = of_job && parts.size() == 3 ? parts[2] : "";
  // Who may see nothing does not learn what there is, either.
  const auto not_there = [&] {
    return Call(request, "ListJobs", Cost::kLittle,
                [&](const Caller&) -> absl::StatusOr<std::string> { return NotThere(request); });
  };
  if (parts.size() > (of_job ? 3u : 1u)) return not_there();
  if (const absl::string_view method = CallOf(what); !method.empty()) {
    if (request.method != "POST") return WrongMethod(request, "POST");
    ADJOIN_RETURN_IF_ERROR(CheckAction(request));
    return Call(request, method, Cost::kLittle, [&](const Caller& caller) {
      return what == "trace" ? answers_.Trace(caller, job, request.query) : answers_.Change(caller, job, what);
    });
  }
  if (!Reads(request)) return WrongMethod(request, "GET");
  const auto& query = request.query;
  if (parts[0] == "me") {
    return Call(request, "ListJobs", Cost::kLittle, [&](const Caller& caller) -> absl::StatusOr<std::string> {
      return answers_.Me(caller, ShowsCookie(request));
    });
  }
  if (parts[0] == "workers") {
    return Call(request, "ListJobs", Cost::kLittle, [&](const Caller&) { return answers_.Workers(query); });
  }
  if (parts[0] == "difference") {
    return Call(request, "DescribeJob", Cost::kWork, [&](const Caller& caller) {
      return answers_.Difference(caller, request.Query("a"), request.Query("b"));
    });
  }
  if (parts[0] == "jobs" && !of_job) {
    return Call(request, "ListJobs", Cost::kLittle, [&](const Caller&) { return answers_.Jobs(query); });
  }
  if (!of_job) return not_there();
  if (parts.size() == 2) {
    return Call(request, "DescribeJob", Cost::kWork,
                [&](const Caller& caller) { return answers_.Job(caller, job, query); });
  }
  if (what == "events") {
    return Call(request, "ReadEvents", Cost::kLittle,
                [&](const Caller& caller) { return answers_.Events(caller, job, query); });
  }
  if (what == "logs") {
    return Call(request, "ReadLogs", Cost::kLittle,
                [&](const Caller& caller) { return answers_.Logs(caller, job, query); });
  }
  if (what == "metrics") {
    return Call(request, "GetArtifact", Cost::kWorker,
                [&](const Caller& caller) { return answers_.Metrics(caller, job, query); });
  }
  if (what == "timeline") {
    return Call(request, "GetArtifact", Cost::kWorker,
                [&](const Caller& caller) { return answers_.Timeline(caller, job, query); });
  }
  if (what == "plan.html") {
    ADJOIN_ASSIGN_OR_RETURN(HttpResponse response,
                            Call(request, "DescribeJob", Cost::kPlanner,
                                 [&](const Caller& caller) { return answers_.PlanPicture(caller, job); }));
    response.type = "text/html; charset=utf-8";
    response.headers.emplace_back("Content-Security-Policy", kPicturePolicy);
    return response;
  }
  return not_there();
}

HttpResponse PageService::AnswerApi(const HttpRequest& request) {
  absl::Status status = CheckNotCrossSite(request);
  if (!status.ok()) return ErrorOf(status);
  absl::StatusOr<HttpResponse> response = Route(request);
  return response.ok() ? *std::move(response) : ErrorOf(response.status());
}

HttpResponse PageService::AnswerSignIn(const HttpRequest& request) {
  if (!request.encrypted) {
    return SignInForm(403, "tokens are sent over TLS only; on this machine alone, nobody signs in");
  }
  const bool out = request.path == "/sign-out";
  if (Reads(request)) return SignInForm(200, "");
  if (request.method != "POST") return ErrorOf(WrongMethod(request, "POST"));
  if (const absl::Status origin = CheckSameOrigin(request); !origin.ok()) return SignInForm(403, origin.message());
  if (out) return Redirect(CookieText("", /*ends=*/true));
  const std::string token = FormField(request.body, "token");
  if (!IsPlainToken(token)) return SignInForm(403, "this is no token: it has letters, digits, - and _ only");
  Credentials shown;
  shown.token = absl::StrCat("Bearer ", token);
  const absl::StatusOr<Admitted> call = access_.Admit(std::move(shown), "ListJobs", request.peer);
  if (!call.ok()) return SignInForm(403, call.status().message());
  return Redirect(CookieText(token, /*ends=*/false));
}

HttpResponse PageService::AnswerPage(const HttpRequest& request) {
  if (!Reads(request)) return ErrorOf(WrongMethod(request, "GET"));
  const bool is_document = request.path == "/";
  bool cookie_refused = false;
  const absl::StatusOr<Admitted> call = Admit(request, "ListJobs", &cookie_refused);
  if (!call.ok()) {
    HttpResponse refusal =
        is_document ? SignInForm(StatusOf(call.status()), call.status().message()) : ErrorOf(call.status());
    if (is_document && cookie_refused) refusal.headers.emplace_back("Set-Cookie", CookieText("", /*ends=*/true));
    return refusal;
  }
  absl::string_view name = request.path;
  const PageFile* file = is_document                              ? FindPageFile("index.html")
                         : absl::ConsumePrefix(&name, "/assets/") ? FindPageFile(name)
                                                                  : nullptr;
  if (file == nullptr || (!is_document && absl::EndsWith(file->name, ".html"))) return ErrorOf(NotThere(request));
  HttpResponse response;
  response.type = std::string(file->type);
  response.headers.emplace_back("ETag", std::string(file->etag));
  response.headers.emplace_back("Content-Security-Policy", kPagePolicy);
  if (is_document && cookie_refused) response.headers.emplace_back("Set-Cookie", CookieText("", /*ends=*/true));
  if (request.Header("if-none-match") == file->etag) {
    response.status = 304;
  } else {
    response.body = std::string(file->content);
  }
  return response;
}

HttpResponse PageService::Answer(const HttpRequest& request) {
  HttpResponse response;
  const bool api = absl::StartsWith(request.path, kApi);
  if (const absl::Status host = CheckHost(request); !host.ok()) {
    response = ErrorOf(host);
  } else if (api) {
    response = AnswerApi(request);
  } else if (request.path == "/sign-in" || request.path == "/sign-out") {
    response = AnswerSignIn(request);
  } else {
    response = AnswerPage(request);
  }
  AddHeaders(response, /*keep=*/response.status == 304 || (!api && response.status == 200));
  return response;
}

}  // namespace adjoin
