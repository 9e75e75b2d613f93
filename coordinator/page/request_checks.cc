#include "coordinator/page/request_checks.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/endpoint.h"
#include "base/printable_text.h"

namespace adjoin {
namespace {

constexpr size_t kShown = 100;  // bytes of a header, in an error

absl::Status Foreign(const std::string& what) {
  return absl::PermissionDeniedError(
      absl::StrCat(what, ": only this page itself may ask for that, opened in a window of its own"));
}

// "[::1]:8080" has the host "::1"; "" where the field is none.
std::string HostOf(absl::string_view field) {
  if (!absl::ConsumePrefix(&field, "[")) return std::string(field.substr(0, field.find(':')));
  const size_t end = field.find(']');
  if (end == absl::string_view::npos || (end + 1 < field.size() && field[end + 1] != ':')) return "";
  return std::string(field.substr(0, end));
}

}  // namespace

bool ShowsCookie(const HttpRequest& request) {
  const auto cookie = request.cookies.find(kTokenCookie);
  return request.Header("authorization").empty() && cookie != request.cookies.end() && !cookie->second.empty();
}

Credentials CertificateOf(const HttpRequest& request) {
  Credentials shown;
  shown.pem = request.pem;
  shown.chain = request.chain;
  return shown;
}

Credentials CredentialsOf(const HttpRequest& request) {
  Credentials shown;
  shown.token = request.Header("authorization");
  if (ShowsCookie(request)) shown.token = absl::StrCat("Bearer ", request.cookies.at(kTokenCookie));
  return shown.token.empty() ? CertificateOf(request) : shown;
}

absl::Status CheckHost(const HttpRequest& request) {
  if (request.encrypted) return absl::OkStatus();  // the certificate names the host
  const std::string host = absl::AsciiStrToLower(HostOf(request.Header("host")));
  if (Endpoint{host, 1}.IsLoopback()) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("this coordinator speaks plain HTTP, on loopback only, and was asked "
                   "for as \"",
                   PrintableText(request.Header("host"), kShown),
                   "\": open it as http://localhost or http://127.0.0.1, with its port"));
}

absl::Status CheckNotCrossSite(const HttpRequest& request) {
  const std::string& site = request.Header("sec-fetch-site");
  if (site.empty() || site == "same-origin" || site == "none") return absl::OkStatus();
  return Foreign("another site's page has sent this request");
}

absl::Status CheckSameOrigin(const HttpRequest& request) {
  const absl::Status site = CheckNotCrossSite(request);
  if (!site.ok()) return site;
  const std::string own = absl::StrCat(request.encrypted ? "https://" : "http://", request.Header("host"));
  const std::string& origin = request.Header("origin");
  if (absl::EqualsIgnoreCase(origin, own)) return absl::OkStatus();
  if (origin.empty()) return Foreign("this request does not tell its origin");
  return Foreign(absl::StrCat("this request comes from \"", PrintableText(origin, kShown), "\""));
}

absl::Status CheckAction(const HttpRequest& request) {
  if (request.Header(kActionHeader).empty()) {
    return Foreign(absl::StrCat("a request that changes something has the header ", kActionHeader));
  }
  const bool program = request.Header("origin").empty() && request.Header("sec-fetch-site").empty() &&
                       request.cookies.find(kTokenCookie) == request.cookies.end();
  return program ? absl::OkStatus() : CheckSameOrigin(request);
}

}  // namespace adjoin
