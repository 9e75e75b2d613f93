// Joins and renewals at a server over TLS that issues real certificates, loses answers, and sends what is of no use.
#include "worker/daemon/joined_node.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/deadline.h"
#include "base/endpoint.h"
#include "base/logging.h"
#include "base/monotonic_condition.h"
#include "base/security/authority_pin.h"
#include "base/security/certificate.h"
#include "base/security/certificate_issuer.h"
#include "base/security/certificates_fixture.h"
#include "base/security/tls.h"
#include "base/unique_fd.h"
#include "proto/coordinator.grpc.pb.h"
#include "proto/protocol.h"

namespace adjoin {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::SizeIs;

std::string ReadAll(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

// Lets in every token. Certificates are valid for four hours, and due to be renewed at once.
class Coordinator : public WorkerLink::Service {
 public:
  explicit Coordinator(const std::string& certs)
      : authorities_(ReadAll(certs + "/ca.pem")),
        issuer_(*CertificateIssuer::Open(certs + "/ca.pem", certs + "/ca.key")) {}
  grpc::Status ReadAuthorities(grpc::ServerContext*, const ReadAuthoritiesRequest*,
                               ReadAuthoritiesResponse* response) override {
    absl::MutexLock lock(&mutex_);
    *response->mutable_header() = MakeHeader();
    response->set_authorities(authorities_);
    return grpc::Status::OK;
  }
  grpc::Status JoinNode(grpc::ServerContext*, const JoinNodeRequest* request, JoinNodeResponse* response) override {
    absl::MutexLock lock(&mutex_);
    if (takes_no_joins_) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "later");
    tokens_.push_back(request->token());
    *response->mutable_header() = MakeHeader();
    return Issue(request->certificate_request(), joins_, response->mutable_issued());
  }
  grpc::Status RenewCertificate(grpc::ServerContext*, const RenewCertificateRequest* request,
                                RenewCertificateResponse* response) override {
    absl::MutexLock lock(&mutex_);
    *response->mutable_header() = MakeHeader();
    return Issue(request->certificate_request(), renewals_, response->mutable_issued());
  }

  void Send(const std::string& authorities) {
    absl::MutexLock lock(&mutex_);
    authorities_ = authorities;
  }
  // Answers to so many calls that issue get lost.
  void Lose(int answers) {
    absl::MutexLock lock(&mutex_);
    lost_ = answers;
  }
  void TakeNoJoins() {
    absl::MutexLock lock(&mutex_);
    takes_no_joins_ = true;
  }
  // The keys, by their hashes, of all joins or renewals, once there are `least` of them.
  std::vector<std::string> Renewals(size_t least) { return When(renewals_, least); }
  std::vector<std::string> Joins(size_t least) { return When(joins_, least); }
  std::vector<std::string> Tokens(size_t least) { return When(tokens_, least); }

 private:
  grpc::Status Issue(const std::string& request, std::vector<std::string>& keys, NodeCertificate* issued)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto key = RequestedKey::Read(request);
    if (!key.ok()) return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "");
    keys.push_back(key->sha256());
    changed_.NotifyAll();
    if (lost_ > 0 && lost_-- > 0) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the answer got lost");
    const auto made = issuer_->Issue(*key, "node-1", absl::Now() - absl::Hours(20), absl::Hours(24));
    if (!made.ok()) return grpc::Status(grpc::StatusCode::INTERNAL, std::string(made.status().message()));
    issued->set_certificates(made->pem);
    issued->set_authorities(authorities_);
    return grpc::Status::OK;
  }
  std::vector<std::string> When(const std::vector<std::string>& list, size_t least) {
    absl::MutexLock lock(&mutex_);
    EXPECT_TRUE(changed_.Wait(mutex_, Deadline::After(absl::Seconds(60)), [&] { return list.size() >= least; }));
    return list;
  }

  absl::Mutex mutex_;
  MonotonicCondition changed_;
  std::string authorities_ ABSL_GUARDED_BY(mutex_);
  const std::unique_ptr<CertificateIssuer> issuer_;
  int lost_ ABSL_GUARDED_BY(mutex_) = 0;
  bool takes_no_joins_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::string> joins_, renewals_, tokens_;  // guarded by mutex_, too
};

// Takes connections at a port of loopback, 0 for any, and says nothing.
class SilentServer {
 public:
  explicit SilentServer(int port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    socklen_t size = sizeof(address);
    const int reuse = 1;
    EXPECT_EQ(setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse)), 0);
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_.get(), 5), 0);
    EXPECT_EQ(getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
  }
  int port() const { return port_; }
  // True where one has connected within that time.
  bool HasClient(absl::Duration within) const {
    pollfd listener = {listener_.get(), POLLIN, 0};
    return poll(&listener, 1, static_cast<int>(absl::ToInt64Milliseconds(within))) == 1;
  }
  // Ends the connection of the first one that has.
  void DropClient() const { const UniqueFd client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)); }

 private:
  const UniqueFd listener_{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  int port_ = 0;
};

class JoinedNodeTest : public CertificatesTest {
 protected:
  void SetUp() override {
    MakeCerts("certs", "--server localhost,127.0.0.1");
    coordinator_ = std::make_unique<Coordinator>(folder_ + "/certs");
    Serve();
    WriteToken("aaaaaaaaaaaa");
  }
  void TearDown() override {
    node_.reset();
    server_.reset();
  }
  // On the same port where it has served before. `certs`: the folder of its certificate.
  void Serve(const std::string& certs = "certs") {
    auto credentials = MakeServerCredentials(endpoint_, Files("server", certs));
    ASSERT_TRUE(credentials.ok()) << credentials.status();
    grpc::ServerBuilder builder;
    builder.RegisterService(coordinator_.get());
    int port = 0;
    builder.AddListeningPort(endpoint_.ToString(), *credentials, &port);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    endpoint_.port = port;
  }
  void WriteToken(const std::string& id) {
    const TlsFiles server = Files("server");
    const auto pin = PinOfAuthority(ReadAll(server.cert), ReadAll(server.ca));
    ASSERT_TRUE(pin.ok()) << pin.status();
    token_ = absl::StrCat("adjjoin_", id, "_", std::string(64, '0'), "_", *pin);
    std::ofstream(folder_ + "/token") << token_ << "\n";
    std::filesystem::permissions(folder_ + "/token",
                                 std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  }
  absl::Status Join(const std::function<bool()>& stops = [] { return false; }) {
    node_.reset();
    JoinedNode::Options options;
    options.coordinator = endpoint_;
    options.name = "node-1";
    options.token_file = folder_ + "/token";
    options.folder = folder_ + "/certificate";
    auto joined = JoinedNode::Join(std::move(options), stops);
    if (joined.ok()) node_ = *std::move(joined);
    return joined.status();
  }
  std::string File(const std::string& name) const { return absl::StrCat(folder_, "/certificate/", name); }
  std::string SerialInUse() const {
    const auto own = ReadCertificate(ReadAll(File("node.pem")));
    return own.ok() ? own->serial : "";
  }

  std::string token_;
  Endpoint endpoint_{"127.0.0.1", 0};
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<JoinedNode> node_;
};

TEST_F(JoinedNodeTest, WhatIsOfNoUseReplacesNothing) {
  ASSERT_EQ(Join(), absl::OkStatus());
  coordinator_->Renewals(1);
  node_.reset();  // what has come is installed
  const std::string authorities = ReadAll(File("ca.pem")), pair = ReadAll(File("node.pem"));
  // The authority that is known, and one that is cut off.
  coordinator_->Send(authorities + authorities.substr(0, authorities.size() / 2));
  const size_t before = coordinator_->Renewals(1).size();
  ASSERT_EQ(Join(), absl::OkStatus());
  coordinator_->Renewals(before + 2);
  EXPECT_EQ(ReadAll(File("ca.pem")), authorities);
  EXPECT_EQ(ReadAll(File("node.pem")), pair);
  EXPECT_THAT(coordinator_->Joins(1), SizeIs(1)) << "no token is needed";
  coordinator_->Send(authorities);
  coordinator_->Renewals(coordinator_->Renewals(1).size() + 2);
  EXPECT_NE(ReadAll(File("node.pem")), pair);
}

TEST_F(JoinedNodeTest, AKeyIsAskedForAgainUntilItsCertificateHasCome) {
  ASSERT_EQ(Join(), absl::OkStatus());
  node_.reset();
  const size_t before = coordinator_->Renewals(0).size();
  coordinator_->Lose(2);
  ASSERT_EQ(Join(), absl::OkStatus());
  coordinator_->Renewals(before + 1);
  node_.reset();  // also by another start
  ASSERT_EQ(Join(), absl::OkStatus());
  const std::vector<std::string> keys = coordinator_->Renewals(before + 4);
  EXPECT_EQ(keys[before], keys[before + 1]);
  EXPECT_EQ(keys[before], keys[before + 2]);
  EXPECT_NE(keys[before], keys[before + 3]) << "each certificate has a new key";
}

TEST_F(JoinedNodeTest, ANewTokenIsTriedUntilTheCoordinatorIsBack) {
  ASSERT_EQ(Join(), absl::OkStatus());
  ASSERT_EQ(Join(), absl::OkStatus());
  EXPECT_THAT(coordinator_->Joins(1), SizeIs(1)) << "a token is new once";
  node_.reset();
  server_.reset();
  WriteToken("bbbbbbbbbbbb");
  ASSERT_EQ(Join(), absl::OkStatus()) << "it has a certificate";
  Serve();
  EXPECT_EQ(coordinator_->Tokens(2)[1], token_);
  node_.reset();
  // Where nothing tells which token was the last, the one that is there counts as new.
  std::filesystem::remove(File("token-id"));
  ASSERT_EQ(Join(), absl::OkStatus());
  EXPECT_THAT(coordinator_->Joins(3), SizeIs(3));
}

TEST_F(JoinedNodeTest, ATokenThatCannotBeUsedIsToldOfOnceAndTakenWhenItCan) {
  ASSERT_EQ(Join(), absl::OkStatus());
  node_.reset();
  const std::string token = folder_ + "/token";
  WriteToken("bbbbbbbbbbbb");
  fs::permissions(token, fs::perms::others_read, fs::perm_options::add);
  const size_t before = coordinator_->Renewals(0).size();
  ::testing::internal::CaptureStderr();
  InitLogging("joined_node_test");  // on stderr as it is now
  const absl::Status joined = Join();
  coordinator_->Renewals(before + 3);  // it looks at the file before each
  const std::string log = ::testing::internal::GetCapturedStderr();
  ASSERT_EQ(joined, absl::OkStatus()) << "it has a certificate";
  const std::string told = absl::StrCat("every user of this machine may read ", token, ": chmod 600 it");
  EXPECT_THAT(log, HasSubstr(absl::StrCat("warning: a token to join with is not looked at: ", told)));
  EXPECT_EQ(log.find(told), log.rfind(told)) << log;
  EXPECT_THAT(coordinator_->Joins(1), SizeIs(1));
  fs::permissions(token, fs::perms::others_read, fs::perm_options::remove);
  EXPECT_EQ(coordinator_->Tokens(2)[1], token_);

  // What replaces it is told of, too.
  node_.reset();
  fs::remove(token);
  std::ofstream(token) << "no token\n";
  ::testing::internal::CaptureStderr();
  const absl::Status again = Join();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("its first line is no token to join with"));
  EXPECT_EQ(again, absl::OkStatus());
}

TEST_F(JoinedNodeTest, DamagedAuthoritiesAreFetchedAnewAndCostNoToken) {
  ASSERT_EQ(Join(), absl::OkStatus());
  node_.reset();
  for (const std::string& damaged : {std::string("junk"), std::string()}) {
    std::ofstream(File("ca.pem")) << damaged;
    ASSERT_EQ(Join(), absl::OkStatus());
    EXPECT_TRUE(Authorities::Open(File("ca.pem")).ok());
    node_.reset();
  }
  EXPECT_THAT(coordinator_->Joins(1), SizeIs(1));
  // Without the token it is told what is wrong.
  std::ofstream(File("ca.pem")) << "junk";
  std::filesystem::remove(folder_ + "/token");
  EXPECT_THAT(std::string(Join().message()), HasSubstr("ca.pem holds no certificate"));
  EXPECT_NE(SerialInUse(), "");
}

TEST_F(JoinedNodeTest, WhatWasRevokedIsNotForgottenWithAuthoritiesThatAreDamaged) {
  const std::string bare = ReadAll(folder_ + "/certs/ca.pem");
  MakeCerts("certs", "--client user bob");
  MakeCerts("certs", "--revoke user-bob");
  const std::string whole = ReadAll(folder_ + "/certs/ca.pem");
  const size_t list = whole.find("-----BEGIN X509 CRL-----");
  ASSERT_NE(list, std::string::npos);
  coordinator_->Send(whole);
  ASSERT_EQ(Join(), absl::OkStatus());
  node_.reset();
  EXPECT_EQ(ReadAll(File("ca.pem")), whole);

  // From now on the coordinator tells of no list, and no renewal brings what it tells.
  coordinator_->Send(bare);
  coordinator_->Lose(1000000);
  std::string damaged = whole;
  damaged.replace(list + 40, 8, "********");
  std::ofstream(File("ca.pem")) << damaged;
  EXPECT_THAT(std::string(Join().message()), HasSubstr("ca.pem holds a revocation list that cannot be read"));
  EXPECT_EQ(ReadAll(File("ca.pem")), damaged) << "what it revokes is not known, so nothing takes its place";

  damaged = whole;
  damaged.replace(40, 8, "********");  // the authority's certificate, before its list
  std::ofstream(File("ca.pem")) << damaged;
  ASSERT_EQ(Join(), absl::OkStatus());
  EXPECT_EQ(ReadAll(File("ca.pem")), bare + whole.substr(list));
}

TEST_F(JoinedNodeTest, OtherAuthoritiesNeedAnotherCertificate) {
  ASSERT_EQ(Join(), absl::OkStatus());
  node_.reset();
  MakeCerts("other", "--server localhost,127.0.0.1");
  std::filesystem::copy_file(folder_ + "/other/ca.pem", File("ca.pem"),
                             std::filesystem::copy_options::overwrite_existing);
  ASSERT_EQ(Join(), absl::OkStatus()) << "the token lets it in once more";
  EXPECT_THAT(coordinator_->Joins(2), SizeIs(2));
  EXPECT_THAT(ReadAll(File("ca.pem")), HasSubstr(ReadAll(folder_ + "/certs/ca.pem")));
  node_.reset();
  // Without a token it says what is wrong.
  std::filesystem::copy_file(folder_ + "/other/ca.pem", File("ca.pem"),
                             std::filesystem::copy_options::overwrite_existing);
  std::filesystem::remove(folder_ + "/token");
  const std::string why = std::string(Join().message());
  EXPECT_THAT(why, HasSubstr("node.pem is of no use"));
  EXPECT_THAT(why, HasSubstr("was signed by another authority"));
  EXPECT_THAT(why, HasSubstr("no token can be read"));
}

TEST_F(JoinedNodeTest, TheTokenGoesToNobodyWhomItsAuthorityHasNotSigned) {
  MakeCerts("other", "--server localhost,127.0.0.1");
  // Known here, too, as while one authority takes the place of another.
  std::filesystem::create_directories(folder_ + "/certificate");
  std::ofstream(File("ca.pem")) << ReadAll(folder_ + "/other/ca.pem") << ReadAll(folder_ + "/certs/ca.pem");
  server_.reset();
  Serve("other");  // it tells the right authority
  EXPECT_THAT(std::string(Join().message()), HasSubstr("not trusted"));
  EXPECT_THAT(coordinator_->Tokens(0), SizeIs(0));
}

TEST_F(JoinedNodeTest, ANewTokenThatCannotBeUsedKeepsNoCertificateFromItsRenewal) {
  ASSERT_EQ(Join(), absl::OkStatus());
  coordinator_->Renewals(1);
  node_.reset();
  const size_t before = coordinator_->Renewals(0).size();
  WriteToken("bbbbbbbbbbbb");
  coordinator_->TakeNoJoins();
  ASSERT_EQ(Join(), absl::OkStatus());
  coordinator_->Renewals(before + 1);
}

TEST_F(JoinedNodeTest, TellingItToStopBreaksOffACallThatIsNotAnswered) {
  const SilentServer silent(0);
  endpoint_.port = silent.port();
  const Deadline long_before_its_deadline = Deadline::After(absl::Seconds(10));
  const absl::Status status = Join([&] { return silent.HasClient(absl::ZeroDuration()); });
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
  EXPECT_FALSE(long_before_its_deadline.Expired());
}

TEST_F(JoinedNodeTest, ItsEndBreaksOffARenewalThatIsNotAnswered) {
  ASSERT_EQ(Join(), absl::OkStatus());
  node_.reset();
  server_.reset();
  const SilentServer silent(endpoint_.port);
  ASSERT_EQ(Join(), absl::OkStatus()) << "it has a certificate";
  ASSERT_TRUE(silent.HasClient(absl::Seconds(60)));
  const Deadline long_before_its_deadline = Deadline::After(absl::Seconds(10));
  node_.reset();
  EXPECT_FALSE(long_before_its_deadline.Expired());
}

TEST_F(JoinedNodeTest, ItsEndBreaksOffAJoinThatIsNotAnsweredAndNothingFollows) {
  ASSERT_EQ(Join(), absl::OkStatus());
  node_.reset();
  server_.reset();
  WriteToken("bbbbbbbbbbbb");
  const SilentServer silent(endpoint_.port);
  ::testing::internal::CaptureStderr();
  InitLogging("joined_node_test");  // on stderr as it is now
  const absl::Status joined = Join([&] { return silent.HasClient(absl::ZeroDuration()); });
  silent.DropClient();  // that of the start, which was told to stop
  const bool tries_again = silent.HasClient(absl::Seconds(60));
  node_.reset();
  const std::string log = ::testing::internal::GetCapturedStderr();
  ASSERT_EQ(joined, absl::OkStatus()) << "it has a certificate";
  EXPECT_TRUE(tries_again);
  EXPECT_EQ(log.find("cannot join with its new token yet"), std::string::npos) << log;
}

TEST_F(JoinedNodeTest, AnAuthorityWithTheRightKeyThatHasNotSignedItselfIsNotTaken) {
  MakeCerts("other", "--server localhost");
  ASSERT_EQ(Shell("printf 'basicConstraints=critical,CA:TRUE\\n' > x && "
                  "openssl x509 -in certs/ca.pem -noout -pubkey > k && "
                  "openssl req -new -key other/ca.key -subj /CN=forged -out r && "
                  "openssl x509 -req -in r -force_pubkey k -CA other/ca.pem -CAkey other/ca.key -set_serial 9 -days 9 "
                  "-extfile x -out f.pem"),
            0);
  const std::string right = ReadAll(folder_ + "/certs/ca.pem");
  coordinator_->Send(ReadAll(folder_ + "/f.pem"));
  EXPECT_THAT(std::string(Join().message()), HasSubstr("the token was not sent"));
  EXPECT_THAT(coordinator_->Tokens(0), SizeIs(0));
  // One that is there already is not kept, either.
  std::filesystem::copy_file(folder_ + "/f.pem", File("ca.pem"));
  coordinator_->Send(right);
  ASSERT_EQ(Join(), absl::OkStatus());
  EXPECT_THAT(ReadAll(File("ca.pem")), HasSubstr(right));
}

}  // namespace
}  // namespace adjoin
