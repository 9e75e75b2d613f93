// The coordinator's page over TLS: who gets what, who may do what, and what text of others may not do. The ranks are
// fakes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/fault/security_fixture.h"
#include "tests/page/page_client.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using Json = nlohmann::json;
using Headers = PageClient::Headers;

constexpr char kHostile[] = "<img src=x onerror=alert(1)><script>alert(2)";
const std::vector<std::string> kPaths = {"/",
                                         "/assets/app.js",
                                         "/assets/style.css",
                                         "/api/me",
                                         "/api/jobs",
                                         "/api/workers",
                                         "/api/jobs/job-1",
                                         "/api/jobs/job-1/events",
                                         "/api/jobs/job-1/logs",
                                         "/api/jobs/job-1/metrics",
                                         "/api/jobs/job-1/timeline?file=trace-1-2.pftrace&step=1",
                                         "/api/jobs/job-1/plan.html",
                                         "/api/difference?a=job-1&b=job-1",
                                         "/api/nothing",
                                         "/nothing"};

class PageSecurityTest : public SecurityTest {
 protected:
  void Start(int nodes = 1) {
    StartCluster(nodes, /*real_ranks=*/false, {}, {"--page-listen", "127.0.0.1:0"});
    port_ = PagePortIn(ReadFile(cluster_->folder() + "/coordinator-log.err"));
    ASSERT_GT(port_, 0) << ReadFile(cluster_->folder() + "/coordinator-log.err");
  }
  PageClient As(const std::string& who) const { return PageClient(port_, Files(who)); }
  PageClient WithoutCertificate() const {
    TlsFiles files = Files("user-alice");
    files.cert = files.key = "";
    return PageClient(port_, files);
  }
  PageResponse Get(const PageClient& client, const std::string& path, const Headers& headers = {}) {
    return Send(client, "GET", path, headers, "");
  }
  PageResponse Send(const PageClient& client, const std::string& method, const std::string& path,
                    const Headers& headers = {}, const std::string& body = "") {
    const absl::StatusOr<PageResponse> response = client.Send(method, path, headers, body);
    EXPECT_TRUE(response.ok()) << method << " " << path << ": " << response.status();
    return response.ok() ? *response : PageResponse();
  }
  std::string Origin() const { return absl::StrCat("https://127.0.0.1:", port_); }
  // What a script of the page sends.
  Headers OwnAction() const {
    return {{"X-Adjoin-Action", "1"}, {"Origin", Origin()}, {"Sec-Fetch-Site", "same-origin"}};
  }
  std::string NewToken(const std::string& user, const std::string& role) {
    const LocalCluster::CliResult made = Cli("admin-root", {"token", "create", user, "--role", role, "-o", "json"});
    EXPECT_EQ(made.exit_code, 0) << made.err;
    return Json::parse(made.out)["token"];
  }
  std::string StateOf(const std::string& job) {
    return Json::parse(Get(As("admin-root"), "/api/jobs/" + job).body)["described"]["job"]["state"];
  }

  int port_ = 0;
};

TEST_F(PageSecurityTest, WithoutACertificateOrTokenThereIsOnlyTheFormToSignIn) {
  Start();
  SubmitAs("user-alice", FakeJob("hang", 2));
  MakeCerts("others", "--client admin root");
  const PageClient stranger(
      port_, {Files("user-alice").ca, Files("admin-root", "others").cert, Files("admin-root", "others").key});
  for (const PageClient& client : {WithoutCertificate(), stranger}) {
    for (const std::string& path : kPaths) {
      const PageResponse response = Get(client, path);
      EXPECT_EQ(response.status, 401) << path;
      EXPECT_THAT(response.body, AllOf(Not(HasSubstr("<script")), Not(HasSubstr("job_id")), Not(HasSubstr("hang"))));
    }
  }
  EXPECT_THAT(Get(WithoutCertificate(), "/").body, HasSubstr("name=\"token\""));
  EXPECT_EQ(Get(WithoutCertificate(), "/api/jobs", {{"Authorization", "Bearer 0123456789"}}).status, 401);
  // A daemon's certificate is no person's.
  for (const std::string& path : kPaths) {
    const int status = Get(As("worker-worker-0"), path).status;
    EXPECT_TRUE(status == 403 || status == 404) << path << " " << status;
  }
  EXPECT_EQ(Get(As("user-alice"), "/").status, 200);
  EXPECT_EQ(Get(As("user-alice"), "/api/jobs").status, 200);
}

TEST_F(PageSecurityTest, ACallerSeesAndMayDoWhatTheCommandShowsAndLets) {
  Start();
  const std::string job = SubmitAs("user-alice", FakeJob("succeed", 2));
  ASSERT_TRUE(cluster_->WaitFor(job, Within(60)).ok());
  for (const std::string who : {"user-alice", "user-bob", "viewer-eve", "admin-root"}) {
    SCOPED_TRACE(who);
    const LocalCluster::CliResult described = Cli(who, {"describe", job, "-o", "json"});
    ASSERT_EQ(described.exit_code, 0) << described.err;
    const Json shown = Json::parse(Get(As(who), absl::StrCat("/api/jobs/", job, "?spec=1")).body);
    EXPECT_EQ(shown["described"], Json::parse(described.out));
    const bool own = who == "user-alice" || who == "admin-root";
    EXPECT_EQ(shown["may_change"], own);
    EXPECT_EQ(shown["may_read"], own);
    EXPECT_EQ(shown["described"].contains("spec"), own);
    const std::vector<std::pair<std::string, std::vector<std::string>>> same = {{"/logs", {"logs", job}},
                                                                                {"/events", {"events", job}}};
    for (const auto& [path, command] : same) {
      const LocalCluster::CliResult said = Cli(who, command);
      const PageResponse response = Get(As(who), absl::StrCat("/api/jobs/", job, path));
      EXPECT_EQ(response.status == 200, said.exit_code == 0) << path << " " << response.body << said.err;
      if (response.status == 200) continue;
      EXPECT_EQ(response.status, 403);
      EXPECT_THAT(said.err, HasSubstr(Json::parse(response.body)["error"].get<std::string>()));
    }
    EXPECT_EQ(Get(As(who), absl::StrCat("/api/jobs/", job, "/plan.html")).status, own ? 200 : 403);
    EXPECT_EQ(Get(As(who), absl::StrCat("/api/jobs/", job, "/metrics")).status == 403, !own);
    const std::string timeline = "/timeline?file=trace-1-2.pftrace&step=1";
    EXPECT_EQ(Get(As(who), absl::StrCat("/api/jobs/", job, timeline)).status == 403, !own);
    EXPECT_EQ(Get(As(who), absl::StrCat("/api/difference?a=", job, "&b=", job)).status, own ? 200 : 403);
    const Json list = Json::parse(Get(As(who), "/api/jobs").body);
    EXPECT_EQ(list["job"], Json::parse(Cli(who, {"ps", "-o", "json"}).out)["job"]);
  }
  const std::string running = SubmitAs("user-alice", FakeJob("hang", 2));
  for (const std::string who : {"user-bob", "viewer-eve"}) {
    const PageResponse refused = Send(As(who), "POST", absl::StrCat("/api/jobs/", running, "/cancel"), OwnAction());
    EXPECT_EQ(refused.status, 403) << who;
    EXPECT_THAT(refused.body, HasSubstr(who == "user-bob" ? "which is alice's" : "may not call CancelJob"));
    const PageResponse trace =
        Send(As(who), "POST", absl::StrCat("/api/jobs/", running, "/trace?steps=2"), OwnAction());
    EXPECT_EQ(trace.status, 403) << who;
    EXPECT_THAT(trace.body, HasSubstr(who == "user-bob" ? "which is alice's" : "may not call TraceJob"));
  }
  for (const std::string who : {"user-alice", "admin-root"}) {
    const std::string path = absl::StrCat("/api/jobs/", running, "/trace?steps=");
    EXPECT_NE(Send(As(who), "POST", path + "2", OwnAction()).status, 403)
        << "whatever else is wrong: these are no ranks";
    for (const std::string steps : {"-1", "1e3", "4294967296"}) {
      EXPECT_EQ(Send(As(who), "POST", path + steps, OwnAction()).status, 400) << steps;
    }
  }
  EXPECT_THAT(StateOf(running), Not("CANCELLED"));
}

TEST_F(PageSecurityTest, NoOtherSiteCanMakeABrowserAct) {
  Start();
  const std::string token = NewToken("alice", "user");
  const std::string job = SubmitAs("user-alice", FakeJob("hang", 4));  // waits: there are two slots
  const std::string path = absl::StrCat("/api/jobs/", job, "/");
  const Headers cookie = {{"Cookie", "__Host-adjoin-token=" + token}};
  const auto with = [&](Headers more) {
    more.insert(cookie.begin(), cookie.end());
    return more;
  };
  // As forms and scripts of other sites would: with all that a browser adds by itself.
  const std::vector<Headers> attacks = {
      with({}),
      with({{"Origin", "https://evil.example"}, {"Sec-Fetch-Site", "cross-site"}}),
      with({{"X-Adjoin-Action", "1"}}),
      with({{"X-Adjoin-Action", "1"}, {"Origin", "https://evil.example"}}),
      with({{"X-Adjoin-Action", "1"}, {"Origin", "null"}}),
      with({{"X-Adjoin-Action", "1"}, {"Origin", absl::StrCat("http://127.0.0.1:", port_)}}),
      with({{"X-Adjoin-Action", "1"}, {"Origin", Origin()}, {"Sec-Fetch-Site", "cross-site"}}),
      with({{"Origin", Origin()}, {"Sec-Fetch-Site", "same-origin"}})};
  for (const Headers& attack : attacks) {
    for (const std::string action : {"cancel", "hold", "trace?steps=1"}) {
      EXPECT_EQ(Send(WithoutCertificate(), "POST", path + action, attack).status, 403);
    }
  }
  Headers by_certificate = {{"Origin", "https://evil.example"}, {"X-Adjoin-Action", "1"}};
  EXPECT_EQ(Send(As("user-alice"), "POST", path + "cancel", by_certificate).status, 403);
  EXPECT_EQ(Send(As("user-alice"), "POST", path + "cancel", {}).status, 403);
  EXPECT_EQ(Get(As("user-alice"), path + "cancel").status, 405) << "reading changes nothing";
  EXPECT_EQ(Get(As("user-alice"), "/api/jobs", {{"Sec-Fetch-Site", "cross-site"}}).status, 403);
  // No answer lets scripts of other sites read or send anything.
  const PageResponse preflight = Send(WithoutCertificate(), "OPTIONS", path + "cancel",
                                      {{"Origin", "https://evil.example"},
                                       {"Access-Control-Request-Method", "POST"},
                                       {"Access-Control-Request-Headers", "x-adjoin-action"}});
  EXPECT_EQ(preflight.headers.count("access-control-allow-origin"), 0);
  EXPECT_EQ(preflight.headers.count("access-control-allow-headers"), 0);
  EXPECT_EQ(StateOf(job), "PENDING");

  // The page itself may.
  const auto held = [&] {
    return Json::parse(Get(As("user-alice"), "/api/jobs/" + job).body)["described"]["job"]["held"].get<bool>();
  };
  Headers own = with(OwnAction());
  EXPECT_EQ(Send(WithoutCertificate(), "POST", path + "hold", own).status, 200);
  EXPECT_TRUE(held());
  EXPECT_EQ(Send(As("user-alice"), "POST", path + "release", OwnAction()).status, 200);
  EXPECT_FALSE(held());
  EXPECT_EQ(Send(WithoutCertificate(), "POST", path + "cancel", own).status, 200);
  EXPECT_EQ(StateOf(job), "CANCELLED");
  EXPECT_EQ(Send(WithoutCertificate(), "POST", path + "retry", own).status, 200);
  EXPECT_EQ(StateOf(job), "PENDING");
  EXPECT_EQ(Send(WithoutCertificate(), "POST", path + "retry", own).status, 409);
}

TEST_F(PageSecurityTest, ATokenSignsInUntilItIsRevoked) {
  Start();
  const std::string token = NewToken("carol", "viewer");
  const Headers form = {{"Origin", Origin()}, {"Content-Type", "application/x-www-form-urlencoded"}};
  const PageResponse in = Send(WithoutCertificate(), "POST", "/sign-in", form, "token=" + token);
  ASSERT_EQ(in.status, 303) << in.body;
  EXPECT_EQ(in.headers.at("location"), "/");
  const std::string cookie = in.headers.at("set-cookie");
  for (const char* part : {"; Path=/", "; Secure", "; HttpOnly", "; SameSite="}) EXPECT_THAT(cookie, HasSubstr(part));
  EXPECT_THAT(cookie, StartsWith("__Host-adjoin-token="));
  const Headers signed_in = {{"Cookie", cookie.substr(0, cookie.find(';'))}};
  const Json me = Json::parse(Get(WithoutCertificate(), "/api/me", signed_in).body);
  EXPECT_EQ(me["caller"], "viewer carol");
  EXPECT_EQ(Get(WithoutCertificate(), "/", signed_in).status, 200);
  EXPECT_EQ(Get(WithoutCertificate(), "/api/jobs", {{"Authorization", "Bearer " + token}}).status, 200);

  // Nobody else's page signs a browser in, and what is no token is told so as text.
  EXPECT_EQ(
      Send(WithoutCertificate(), "POST", "/sign-in", {{"Origin", "https://evil.example"}}, "token=" + token).status,
      403);
  for (const std::string wrong : {"%3Cscript%3Ealert(1)%3C/script%3E", "<script>alert(1)</script>", "aaaa", ""}) {
    const PageResponse refused = Send(WithoutCertificate(), "POST", "/sign-in", form, "token=" + wrong);
    EXPECT_EQ(refused.status, 403) << wrong;
    EXPECT_EQ(refused.headers.count("set-cookie"), 0);
    EXPECT_THAT(refused.body, Not(HasSubstr("<script")));
  }
  const PageResponse out = Send(WithoutCertificate(), "POST", "/sign-out", form);
  EXPECT_THAT(out.headers.at("set-cookie"), HasSubstr("Max-Age=0"));

  const Json tokens = Json::parse(Cli("admin-root", {"token", "list", "-o", "json"}).out);
  EXPECT_EQ(Cli("admin-root", {"token", "revoke", tokens["token"][0]["id"].get<std::string>()}).exit_code, 0);
  EXPECT_EQ(Get(WithoutCertificate(), "/api/jobs", signed_in).status, 401);
  // The cookie goes, and does not lock out who has a certificate.
  const PageResponse again = Get(WithoutCertificate(), "/", signed_in);
  EXPECT_EQ(again.status, 401);
  EXPECT_THAT(again.headers.at("set-cookie"), HasSubstr("Max-Age=0"));
  EXPECT_EQ(Get(WithoutCertificate(), "/").headers.count("set-cookie"), 0);
  EXPECT_EQ(Json::parse(Get(As("user-alice"), "/api/me", signed_in).body)["caller"], "user alice");
  EXPECT_EQ(Get(As("user-alice"), "/", signed_in).status, 200);
}

TEST_F(PageSecurityTest, ARevokedCertificateIsNone) {
  const TlsFiles bob = {Files("user-bob").ca, Files("user-bob").cert + ".revoked", Files("user-bob").key + ".revoked"};
  MakeCerts("certs", "--revoke user-bob");
  Start();
  EXPECT_EQ(Get(As("user-alice"), "/api/jobs").status, 200);
  EXPECT_EQ(Get(PageClient(port_, bob), "/api/jobs").status, 401);
}

TEST_F(PageSecurityTest, TextOfOthersIsNeverMarkup) {
  Start();
  const std::string job =
      SubmitAs("user-alice", FakeJob("steps-100000x10ms", 2, absl::StrCat("output_dir: \"", kHostile, "\"")));
  const std::string path = "/api/jobs/" + job;
  for (const std::string& data : std::vector<std::string>{"/api/jobs", path + "?spec=1", path + "/events"}) {
    const PageResponse response = Get(As("user-alice"), data);
    EXPECT_EQ(response.status, 200) << data;
    EXPECT_EQ(response.headers.at("content-type"), "application/json");
    EXPECT_EQ(response.headers.at("x-content-type-options"), "nosniff");
    EXPECT_TRUE(Json::accept(response.body));
  }
  EXPECT_EQ(Json::parse(Get(As("user-alice"), path + "?spec=1").body)["described"]["spec"]["output_dir"], kHostile);
  const PageResponse plan = Get(As("user-alice"), path + "/plan.html");
  ASSERT_EQ(plan.status, 200) << plan.body;
  EXPECT_THAT(plan.body, AllOf(Not(HasSubstr("<img")), Not(HasSubstr("<script"))));
  EXPECT_THAT(plan.headers.at("content-security-policy"), AllOf(HasSubstr("sandbox"), HasSubstr("default-src 'none'")));
  // Names in addresses come back in errors.
  for (const std::string where : {"/api/%3Cscript%3E", "/api/jobs/%3Cscript%3E", "/%3Cscript%3E",
                                  "/assets/%3Cscript%3E", "/api/jobs?state=%3Cscript%3E", "/api/jobs/a%22%5C%0D%0Ab"}) {
    const PageResponse response = Get(As("user-alice"), where);
    EXPECT_GE(response.status, 400) << where;
    EXPECT_EQ(response.headers.at("content-type"), "application/json");
    EXPECT_TRUE(Json::accept(response.body)) << response.body;
  }
}

TEST_F(PageSecurityTest, EveryAnswerSaysWhatABrowserMayDoWithIt) {
  Start();
  SubmitAs("user-alice", FakeJob("succeed", 2));
  for (const PageClient& client : {As("user-alice"), WithoutCertificate()}) {
    for (const std::string& path : kPaths) {
      const PageResponse response = Get(client, path);
      ASSERT_EQ(response.headers.count("content-security-policy"), 1) << path;
      const std::string policy = response.headers.at("content-security-policy");
      EXPECT_THAT(policy,
                  AllOf(StartsWith("default-src 'none'"), HasSubstr("frame-ancestors"), Not(HasSubstr("unsafe-eval"))))
          << path;
      EXPECT_THAT(policy, Not(HasSubstr("script-src 'unsafe"))) << path;
      EXPECT_EQ(response.headers.at("x-content-type-options"), "nosniff") << path;
      EXPECT_EQ(response.headers.at("cross-origin-resource-policy"), "same-origin") << path;
      EXPECT_EQ(response.headers.count("access-control-allow-origin"), 0) << path;
      EXPECT_THAT(response.headers.at("cache-control"), ::testing::AnyOf("no-store", "private, no-cache")) << path;
    }
  }
  const PageResponse page = Get(As("user-alice"), "/");
  EXPECT_THAT(page.headers.at("content-security-policy"),
              AllOf(HasSubstr("script-src 'self'"), HasSubstr("style-src 'self'"), Not(HasSubstr("unsafe-inline"))));
  EXPECT_THAT(page.body, AllOf(Not(HasSubstr("onclick")), Not(HasSubstr("<style")), Not(HasSubstr(" style="))));
  const PageResponse script = Get(As("user-alice"), "/assets/app.js");
  EXPECT_EQ(script.status, 200);
  EXPECT_EQ(Get(As("user-alice"), "/assets/app.js", {{"If-None-Match", script.headers.at("etag")}}).status, 304);
  EXPECT_EQ(Get(As("user-alice"), "/assets/../adjoin.db").status, 404);
  EXPECT_EQ(Get(As("user-alice"), "/assets/%2e%2e%2fadjoin.db").status, 404);
}

TEST_F(PageSecurityTest, ManySlowClientsHoldUpNeitherDecisionsNorHeartbeats) {
  Start();
  std::vector<UniqueFd> slow;
  for (int i = 0; i < 600; ++i) {
    slow.push_back(PageClient::Connect(port_));
    const char begun[] = "\x16\x03\x01\x02";  // the begin of a handshake
    if (slow.back().get() >= 0) send(slow.back().get(), begun, 4, MSG_NOSIGNAL);
  }
  for (int i = 0; i < 3; ++i) {
    const absl::Time begin = absl::Now();
    const absl::StatusOr<ListJobsResponse> list = cluster_->ListJobs();
    ASSERT_TRUE(list.ok()) << list.status();
    EXPECT_LT(absl::Now() - begin, absl::Seconds(10));
    ASSERT_EQ(list->worker_size(), 1);
    EXPECT_EQ(list->worker(0).state(), "ready");
    ExpectNextJobSucceeds();
  }
  slow.clear();
  EXPECT_EQ(Get(As("user-alice"), "/api/jobs").status, 200);
}

}  // namespace
}  // namespace adjoin
