// A real gRPC server over TLS whose handlers do nothing but ask Access, and clients with all sorts of certificates.
#include "coordinator/services/access.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/deadline.h"
#include "base/endpoint.h"
#include "base/monotonic_condition.h"
#include "base/security/server_limits.h"
#include "base/security/tls.h"
#include "base/testing/expired_certificate.h"
#include "coordinator/services/token_book.h"
#include "proto/coordinator.grpc.pb.h"
#include "proto/grpc_status.h"

namespace adjoin {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Tool() { return absl::StrCat(getenv("TEST_SRCDIR"), "/", getenv("TEST_WORKSPACE"), "/tools/make-certs"); }

class NoStore : public TokenStore {
 public:
  absl::Status Put(const TokenRecord&) override { return absl::OkStatus(); }
  absl::Status Erase(const std::string&) override { return absl::OkStatus(); }
  absl::StatusOr<std::vector<TokenRecord>> All() override { return std::vector<TokenRecord>(); }
};

// Answers with the caller, in the job id.
class Handlers : public Adjoin::Service {
 public:
  Access* access = nullptr;
  grpc::Status Submit(grpc::ServerContext* context, const SubmitRequest*, SubmitResponse* response) override {
    auto call = access->Admit(*context, "Submit");
    if (!call.ok()) return ToGrpc(call.status());
    response->set_job_id(ToString(call->caller()));
    return grpc::Status::OK;
  }
  // Says once that it is let in, and stays until its caller may stay no longer.
  grpc::Status FollowJob(grpc::ServerContext* context, const FollowJobRequest*,
                         grpc::ServerWriter<FollowJobResponse>* writer) override {
    absl::Mutex mutex;
    MonotonicCondition changed;
    absl::Status over;
    auto call = access->Admit(*context, "FollowJob");  // after what its callback uses
    if (!call.ok()) return ToGrpc(call.status());
    call->WhenOver([&](const absl::Status& reason, bool last) {
      absl::MutexLock lock(&mutex);
      over = reason;
      changed.NotifyAll();
    });
    writer->Write(FollowJobResponse());
    while (!context->IsCancelled()) {
      absl::MutexLock lock(&mutex);
      if (changed.Wait(mutex, Deadline::After(absl::Milliseconds(20)), [&] { return !over.ok(); })) break;
    }
    absl::MutexLock lock(&mutex);
    return ToGrpc(over);
  }
};

// A stream that a client has open.
struct Stream {
  Stream(Adjoin::Stub* stub) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    reader = stub->FollowJob(&context, FollowJobRequest());
    let_in = reader->Read(&response);
  }
  ~Stream() {
    context.TryCancel();
    End();
  }
  // Waits for the server's last word.
  std::string End() {
    if (ended) return "";
    ended = true;
    while (reader->Read(&response)) {
    }
    const grpc::Status status = reader->Finish();
    return absl::StrCat(status.error_code(), ": ", status.error_message());
  }
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReader<FollowJobResponse>> reader;
  FollowJobResponse response;
  bool let_in = false, ended = false;
};

class AccessTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = absl::StrCat(getenv("TEST_TMPDIR"), "/access");
    fs::create_directories(folder_);
    Make(
        "certs --server localhost,127.0.0.1 --client admin root --client user alice --client worker node-1 --client "
        "viewer eve");
    Make("other --server localhost,127.0.0.1 --client user alice");
  }
  static void Make(const std::string& arguments) {
    const std::string command = absl::StrCat("cd ", folder_, " && ", Tool(), " ", arguments, " > make.log 2>&1");
    ASSERT_EQ(system(command.c_str()), 0) << command;
  }
  // Signed by our authority, with what make-certs would not make.
  static void Sign(const std::string& name, const std::string& extensions, const std::string& options) {
    const std::string command = absl::StrCat(
        "cd ", folder_, "/certs && printf '", extensions, "' > ", name,
        ".ext && openssl req -new -key user-alice.key -subj /CN=", name, " -out ", name,
        ".csr 2>/dev/null && openssl x509 -req -in ", name, ".csr -CA ca.pem -CAkey ca.key", " -set_serial 7 ", options,
        " -extfile ", name, ".ext -out ", name, ".pem 2>/dev/null && cp user-alice.key ", name, ".key");
    ASSERT_EQ(system(command.c_str()), 0) << command;
  }
  static TlsFiles Files(const std::string& folder, const std::string& name) {
    const std::string base = absl::StrCat(folder_, "/", folder, "/");
    return {base + "ca.pem", base + name + ".pem", base + name + ".key"};
  }

  void Serve(Access::Options options = {}, const TlsFiles& files = Files("certs", "server")) {
    options.tls_ca = files.ca;
    auto access = Access::Create(options, &tokens_);
    ASSERT_TRUE(access.ok()) << access.status();
    access_ = *std::move(access);
    handlers_.access = access_.get();
    auto credentials = MakeServerCredentials({"127.0.0.1", 0}, files);
    ASSERT_TRUE(credentials.ok()) << credentials.status();
    grpc::ServerBuilder builder;
    SetServerLimits(builder);
    builder.RegisterService(&handlers_);
    builder.AddListeningPort("127.0.0.1:0", *credentials, &port_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
  }
  void TearDown() override {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
  }
  std::unique_ptr<Adjoin::Stub> Connect(const TlsFiles& files, const std::string& token_file = "",
                                        const std::string& host = "127.0.0.1") {
    auto credentials = MakeChannelCredentials({host, port_}, files, token_file);
    EXPECT_TRUE(credentials.ok()) << credentials.status();
    if (!credentials.ok()) return nullptr;
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return Adjoin::NewStub(grpc::CreateCustomChannel(absl::StrCat(host, ":", port_), *credentials, arguments));
  }
  // Returns the caller that the server sees, or "code: message".
  static std::string Call(Adjoin::Stub* stub, size_t bytes = 0) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    SubmitRequest request;
    request.set_spec_source(std::string(bytes, ' '));
    SubmitResponse response;
    grpc::Status status = stub->Submit(&context, request, &response);
    return status.ok() ? response.job_id() : absl::StrCat(status.error_code(), ": ", status.error_message());
  }
  std::string CallAs(const std::string& folder, const std::string& name) {
    return Call(Connect(Files(folder, name)).get());
  }
  // As a client that does not look at its own files first.
  std::string CallUnchecked(const std::string& name) {
    const TlsFiles files = Files("certs", name);
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = Read(files.ca);
    options.pem_cert_chain = Read(files.cert);
    options.pem_private_key = Read(files.key);
    return Call(
        Adjoin::NewStub(grpc::CreateChannel(absl::StrCat("127.0.0.1:", port_), grpc::SslCredentials(options))).get());
  }
  static std::string Read(const std::string& path) {
    std::ifstream stream(path);
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  }
  static std::string WriteToken(const std::string& token) {
    const std::string file = folder_ + "/token";
    std::ofstream(file) << token << "\n";
    fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
    return file;
  }

  static inline std::string folder_;
  NoStore store_;
  TokenBook tokens_{store_};
  Handlers handlers_;
  std::unique_ptr<Access> access_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

TEST_F(AccessTest, TheCertificateNamesTheCaller) {
  Serve();
  EXPECT_EQ(CallAs("certs", "user-alice"), "user alice");
  EXPECT_EQ(CallAs("certs", "admin-root"), "admin root");
  EXPECT_EQ(CallAs("certs", "viewer-eve"), "7: viewer eve may not call Submit; only these roles may: admin, user");
  EXPECT_EQ(CallAs("certs", "worker-node-1"),
            "7: worker node-1 may not call Submit; only these roles may: admin, user");
}

TEST_F(AccessTest, RefusesABadCertificateWithTheReason) {
  Serve();
  const std::string client = "subjectAltName=URI:adjoin://user/alice\\nextendedKeyUsage=clientAuth\\n";
  Sign("expired", client, kExpired);
  EXPECT_THAT(CallUnchecked("expired"), AllOf(HasSubstr("16: certificate \"CN=expired\" expired on 20"),
                                              HasSubstr("; make-certs makes a new one")));
  Sign("unnamed", "extendedKeyUsage=clientAuth\\n", "-days 2");
  EXPECT_THAT(CallUnchecked("unnamed"),
              HasSubstr("16: certificate \"CN=unnamed\" has no adjoin:// name; right is one URI"));
  Sign("boss", "subjectAltName=URI:adjoin://boss/alice\\nextendedKeyUsage=clientAuth\\n", "-days 2");
  EXPECT_THAT(CallUnchecked("boss"), HasSubstr("has an adjoin:// name that is none"));
  Sign("two", "subjectAltName=URI:adjoin://user/alice,URI:adjoin://admin/alice\\nextendedKeyUsage=clientAuth\\n",
       "-days 2");
  EXPECT_THAT(CallUnchecked("two"), HasSubstr("has several adjoin:// names"));
  EXPECT_THAT(CallUnchecked("server"), HasSubstr("is not for clients: it needs extendedKeyUsage clientAuth"));

  // Another authority's; and one that calls itself an authority.
  fs::copy_file(folder_ + "/other/user-alice.pem", folder_ + "/certs/foreign.pem");
  fs::copy_file(folder_ + "/other/user-alice.key", folder_ + "/certs/foreign.key");
  EXPECT_THAT(CallUnchecked("foreign"),
              AllOf(HasSubstr("16: certificate \"CN=alice\" was signed by another authority, \"CN=Adjoin authority "),
                    HasSubstr("trusted here is")));
  ASSERT_EQ(system(absl::StrCat(
                       "cd ", folder_,
                       "/certs && cp user-alice.key self.key && openssl req -x509 -new -key self.key -subj /CN=self ",
                       "-addext subjectAltName=URI:adjoin://admin/self -days 2 -out self.pem 2>/dev/null")
                       .c_str()),
            0);
  EXPECT_THAT(CallUnchecked("self"), HasSubstr("16: certificate \"CN=self\" was signed by another authority"));
  // A client's certificate is no authority either.
  ASSERT_EQ(system(absl::StrCat(
                       "cd ", folder_,
                       "/certs && openssl req -new -key user-alice.key -subj /CN=child -out child.csr 2>/dev/null && ",
                       "openssl x509 -req -in child.csr -CA user-alice.pem -CAkey user-alice.key -set_serial 9 -days 2 "
                       "-extfile ",
                       "two.ext -out leaf.pem 2>/dev/null && cat leaf.pem user-alice.pem > child.pem && cp "
                       "user-alice.key child.key")
                       .c_str()),
            0);
  EXPECT_THAT(CallUnchecked("child"), HasSubstr("16: certificate \"CN=child\""));

  TlsFiles none = Files("certs", "user-alice");
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = Read(none.ca);
  auto stub = Adjoin::NewStub(grpc::CreateChannel(absl::StrCat("127.0.0.1:", port_), grpc::SslCredentials(options)));
  EXPECT_THAT(Call(stub.get()), AllOf(HasSubstr("16: neither a certificate nor a token was shown"),
                                      HasSubstr("(make-certs --client ROLE NAME)")));
  EXPECT_EQ(CallAs("certs", "user-alice"), "user alice");
}

TEST_F(AccessTest, ACertificateIsCheckedAtTheTimeOfEachCall) {
  absl::Mutex mutex;
  absl::Time now = absl::Now();
  auto clock = [&] {
    absl::MutexLock lock(&mutex);
    return now;
  };
  Access::Options options;
  options.clock = clock;
  Serve(options);
  auto stub = Connect(Files("certs", "user-alice"));
  EXPECT_EQ(Call(stub.get()), "user alice");
  {
    absl::MutexLock lock(&mutex);
    now += absl::Hours(24 * 366);
  }
  EXPECT_THAT(Call(stub.get()), HasSubstr("16: certificate \"CN=alice\" expired on"));
}

TEST_F(AccessTest, AClientRefusesAnotherCoordinator) {
  Serve();
  TlsFiles mixed = Files("other", "user-alice");
  EXPECT_THAT(
      WhyRefused(Call(Connect(mixed).get())),
      AllOf(HasSubstr("the coordinator is not trusted: certificate \"CN=localhost\" was signed by another authority")));
  auto named = MakeChannelCredentials({"coord.example", port_}, Files("certs", "user-alice"), "");
  ASSERT_TRUE(named.ok()) << named.status();
  auto stub = Adjoin::NewStub(grpc::CreateChannel(absl::StrCat("127.0.0.1:", port_), *named));
  EXPECT_THAT(WhyRefused(Call(stub.get())),
              AllOf(HasSubstr("is not one of host coord.example"), HasSubstr("--server coord.example")));
}

TEST_F(AccessTest, ATokenOverTlsNamesTheCaller) {
  Serve();
  const std::string token = tokens_.Create("bob", "user", 1, absl::Now())->token();
  TlsFiles authority = Files("certs", "user-alice");
  authority.cert = authority.key = "";
  EXPECT_EQ(Call(Connect(authority, WriteToken(token)).get()), "user bob");
  const auto viewer = tokens_.Create("eve", "viewer", 1, absl::Now());
  EXPECT_THAT(Call(Connect(authority, WriteToken(viewer->token())).get()),
              HasSubstr("7: viewer eve may not call Submit"));
  auto stub =
      Connect(authority, WriteToken(tokens_.Create("carol", "user", 1e-9, absl::Now() - absl::Hours(1))->token()));
  EXPECT_THAT(Call(stub.get()), AllOf(HasSubstr("16: token "), HasSubstr("of carol expired on")));
  WriteToken(token);  // the same file, read again
  EXPECT_EQ(Call(stub.get()), "user bob");
  ASSERT_EQ(tokens_.Revoke(tokens_.Check(token, absl::Now())->id()), absl::OkStatus());
  EXPECT_THAT(Call(stub.get()), HasSubstr("16: the token is not known here: it was revoked"));

  EXPECT_THAT(std::string(MakeChannelCredentials({"127.0.0.1", port_}, {}, WriteToken(token)).status().message()),
              HasSubstr("over TLS only"));
  fs::permissions(folder_ + "/token", fs::perms::others_read, fs::perm_options::add);
  EXPECT_EQ(MakeChannelCredentials({"127.0.0.1", port_}, authority, folder_ + "/token").status().code(),
            absl::StatusCode::kPermissionDenied);
}

TEST_F(AccessTest, RenewedFilesAreReadWithoutARestart) {
  Make("renewed --server localhost,127.0.0.1 --client user alice");
  TlsFiles server = Files("renewed", "server"), client = Files("renewed", "user-alice");
  Serve({}, server);
  EXPECT_EQ(Call(Connect(client).get()), "user alice");
  // All of the folder, of a new authority; replaced file by file, keys first.
  Make("next --server localhost,127.0.0.1 --client user bob");
  for (const char* name : {"server.key", "server.pem", "ca.pem"}) {
    fs::copy_file(absl::StrCat(folder_, "/next/", name), absl::StrCat(folder_, "/renewed/", name, ".new"));
    fs::rename(absl::StrCat(folder_, "/renewed/", name, ".new"), absl::StrCat(folder_, "/renewed/", name));
  }
  const absl::Time late = absl::Now() + absl::Seconds(20);
  std::string said;
  while (said != "user bob" && absl::Now() < late) said = CallAs("next", "user-bob");
  EXPECT_EQ(said, "user bob");
  EXPECT_THAT(WhyRefused(CallAs("certs", "user-alice")), HasSubstr("another authority"));
}

TEST_F(AccessTest, UnusableFilesAreRefusedAtTheStart) {
  auto why = [](const TlsFiles& files, const Endpoint& endpoint) {
    return std::string(MakeServerCredentials(endpoint, files).status().message());
  };
  const Endpoint anywhere{"0.0.0.0", 7411};
  TlsFiles files = Files("certs", "server");
  EXPECT_EQ(why(files, anywhere), "");
  EXPECT_THAT(why({}, anywhere), AllOf(HasSubstr("--listen 0.0.0.0:7411 is not on loopback, so it needs mutual TLS"),
                                       HasSubstr("tools/make-certs")));
  EXPECT_THAT(why({files.ca, files.cert, ""}, anywhere), HasSubstr("needs all of"));
  EXPECT_THAT(why({folder_ + "/none", files.cert, files.key}, anywhere), HasSubstr("--tls-ca: "));
  EXPECT_THAT(why({files.ca, files.cert, Files("other", "server").key}, anywhere),
              HasSubstr("is not the key of the certificate"));
  EXPECT_THAT(why({files.key, files.cert, files.key}, anywhere), HasSubstr("holds no certificate"));
  EXPECT_THAT(why({Files("other", "server").ca, files.cert, files.key}, anywhere),
              HasSubstr("signed by another authority"));
  EXPECT_THAT(why(Files("certs", "user-alice"), anywhere), HasSubstr("is not for servers"));
  EXPECT_THAT(std::string(MakeChannelCredentials({"10.0.0.1", 7411}, {}, "").status().message()),
              HasSubstr("--coordinator 10.0.0.1:7411 is not on loopback"));
  const std::string open_key = folder_ + "/open.key";
  fs::copy_file(files.key, open_key);
  fs::permissions(open_key, fs::perms::others_read, fs::perm_options::add);
  EXPECT_THAT(why({files.ca, files.cert, open_key}, anywhere), HasSubstr("chmod 600"));
}

TEST_F(AccessTest, MessagesAndHeadersHaveLimits) {
  Serve();
  auto stub = Connect(Files("certs", "user-alice"));
  EXPECT_EQ(Call(stub.get(), 1 << 20), "user alice");
  EXPECT_THAT(Call(stub.get(), 64 << 20), AllOf(HasSubstr("8: "), HasSubstr("larger than max")));
  EXPECT_EQ(Call(stub.get()), "user alice");
  TlsFiles authority = Files("certs", "user-alice");
  authority.cert = authority.key = "";
  EXPECT_THAT(Call(Connect(authority, WriteToken(std::string(1 << 20, 'a'))).get()), HasSubstr("8: "));
  EXPECT_EQ(Call(stub.get()), "user alice");
}

TEST_F(AccessTest, CallsOfOneCallerAtOnceAreLimited) {
  Access::Options options;
  options.calls_per_caller = 0;
  Serve(options);
  EXPECT_THAT(CallAs("certs", "user-alice"), HasSubstr("8: user alice has 0 calls open already"));
}

TEST_F(AccessTest, StreamsAreLimitedAndLeaveRoomForShortCalls) {
  Access::Options options;
  options.limits[static_cast<int>(CallKind::kStream)] = {2, 3};
  Serve(options);
  auto alice = Connect(Files("certs", "user-alice")), eve = Connect(Files("certs", "viewer-eve"));
  auto root = Connect(Files("certs", "admin-root"));
  Stream first(alice.get()), second(alice.get());
  ASSERT_TRUE(first.let_in && second.let_in);
  Stream third(alice.get());
  EXPECT_FALSE(third.let_in);
  EXPECT_THAT(third.End(), HasSubstr("8: user alice has 2 streams (follow, logs, events, get) open already"));
  Stream other(eve.get());
  EXPECT_TRUE(other.let_in);
  Stream one_more(root.get());
  EXPECT_THAT(one_more.End(), HasSubstr("8: the coordinator has 3 streams (follow, logs, events, get) open for all"));
  EXPECT_EQ(Call(alice.get()), "user alice") << "a short call";
  first.context.TryCancel();
  first.End();
  bool let_in = false;
  for (const absl::Time late = absl::Now() + absl::Seconds(20); !let_in && absl::Now() < late;) {
    let_in = Stream(root.get()).let_in;
  }
  EXPECT_TRUE(let_in) << "one has ended";
}

TEST_F(AccessTest, AnOpenStreamEndsWithItsTokenAndItsCertificate) {
  absl::Mutex mutex;
  absl::Duration ahead;
  Access::Options options;
  options.look = absl::Milliseconds(20);
  options.clock = [&] {
    absl::MutexLock lock(&mutex);
    return absl::Now() + ahead;
  };
  Serve(options);
  TlsFiles authority = Files("certs", "user-alice");
  authority.cert = authority.key = "";
  const auto token = tokens_.Create("bob", "user", 1, absl::Now());
  auto bob = Connect(authority, WriteToken(token->token())), alice = Connect(Files("certs", "user-alice"));
  Stream by_token(bob.get()), by_certificate(alice.get());
  ASSERT_TRUE(by_token.let_in && by_certificate.let_in);
  ASSERT_EQ(tokens_.Revoke(token->summary().id()), absl::OkStatus());
  EXPECT_THAT(by_token.End(), AllOf(HasSubstr("16: the call of user bob ends here: "), HasSubstr("it was revoked")));
  const auto expires = tokens_.Create("bob", "user", 1, absl::Now());
  WriteToken(expires->token());
  Stream by_next_token(bob.get());
  ASSERT_TRUE(by_next_token.let_in);
  {
    absl::MutexLock lock(&mutex);
    ahead = absl::Hours(2);
  }
  EXPECT_THAT(by_next_token.End(), HasSubstr("of bob expired on"));
  EXPECT_TRUE(Stream(alice.get()).let_in) << "the certificate counts still";
  {
    absl::MutexLock lock(&mutex);
    ahead = absl::Hours(24 * 366);
  }
  EXPECT_THAT(by_certificate.End(), AllOf(HasSubstr("16: the call of user alice ends here: certificate \"CN=alice\""),
                                          HasSubstr("expired on")));
}

}  // namespace
}  // namespace adjoin
