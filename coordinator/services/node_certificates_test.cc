// Tokens, joins, renewals and revocations on a real store, with a clock of the test's own.
#include "coordinator/services/node_certificates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/security/certificate.h"
#include "base/security/certificate_issuer.h"
#include "base/security/certificate_request.h"
#include "base/security/certificates_fixture.h"
#include "coordinator/services/long_expired.h"
#include "coordinator/store/store.h"

namespace adjoin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class NodeCertificatesTest : public CertificatesTest {
 protected:
  void SetUp() override {
    MakeCerts("certs", "--server localhost");
    Open();
  }
  // As a coordinator that starts again.
  void Open() {
    nodes_.reset();
    store_.reset();
    auto store = Store::Open(folder_ + "/adjoin.db");
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    auto issuer = CertificateIssuer::Open(folder_ + "/certs/ca.pem", folder_ + "/certs/ca.key");
    ASSERT_TRUE(issuer.ok()) << issuer.status();
    nodes_ =
        std::make_unique<NodeCertificates>(*store_, *std::move(issuer),
                                           NodeCertificates::Options{.lifetime = absl::Hours(24),
                                                                     .authorities_file = folder_ + "/certs/ca.pem",
                                                                     .certificate_file = folder_ + "/certs/server.pem",
                                                                     .clock = [this] { return now_; },
                                                                     .steady_clock = [this] { return steady_; }});
    ASSERT_EQ(nodes_->Load(), absl::OkStatus());
  }
  std::string Token(const std::string& node, uint32_t uses = 1, double hours = 1) {
    auto made = nodes_->CreateToken(node, uses, hours);
    EXPECT_TRUE(made.ok()) << made.status();
    return made.ok() ? made->token() : "";
  }
  static std::string NewRequest() { return MakeKeyAndRequest()->request_der; }
  absl::StatusOr<NodeCertificate> Join(const std::string& token, const std::string& name,
                                       const std::string& request = NewRequest()) {
    JoinNodeRequest join;
    join.set_token(token);
    join.set_name(name);
    join.set_certificate_request(request);
    return nodes_->Join(join);
  }
  // `serial`: of the certificate that is shown.
  absl::StatusOr<NodeCertificate> Renew(const std::string& node, const std::string& serial,
                                        const std::string& request = NewRequest()) {
    return nodes_->Renew(node, request, [&]() -> absl::StatusOr<std::string> { return serial; });
  }
  std::string Refusal(const std::string& token, const std::string& name, const std::string& request = NewRequest()) {
    return std::string(Join(token, name, request).status().message());
  }
  // What the coordinator reads of a certificate that is shown.
  Certificate Shown(const NodeCertificate& issued) {
    auto authorities = Authorities::Open(folder_ + "/certs/ca.pem");
    auto certificate = (*authorities)->Check(issued.certificates(), "", CertificatePurpose::kClient, now_);
    EXPECT_TRUE(certificate.ok()) << certificate.status();
    return certificate.value_or(Certificate());
  }

  // Later than the authority was made.
  absl::Time now_ = absl::FromUnixSeconds(absl::ToUnixSeconds(absl::Now())) + absl::Hours(1);
  absl::Duration steady_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<NodeCertificates> nodes_;
};

TEST_F(NodeCertificatesTest, ATokenLetsInAsManyNodesAsItSays) {
  const std::string token = Token("", 2);
  auto first = Join(token, "node-1");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(NameOf(Shown(*first))->name, "node-1");
  EXPECT_EQ(NameOf(Shown(*first))->role, "worker");
  EXPECT_THAT(first->authorities(), HasSubstr("BEGIN CERTIFICATE"));
  ASSERT_TRUE(Join(token, "node-2").ok());
  EXPECT_THAT(Refusal(token, "node-3"), HasSubstr("is used up"));
  Open();
  EXPECT_THAT(Refusal(token, "node-3"), HasSubstr("is used up"));
  ASSERT_THAT(nodes_->Tokens(), SizeIs(1));
  EXPECT_EQ(nodes_->Tokens()[0].uses_left(), 0);
}

TEST_F(NodeCertificatesTest, AJoinWhoseAnswerWasLostCountsOnceAndOnlyForItsKey) {
  const std::string token = Token("node-1"), request = NewRequest();
  ASSERT_TRUE(Join(token, "node-1", request).ok());
  Open();
  EXPECT_TRUE(Join(token, "node-1", request).ok());
  EXPECT_THAT(Refusal(token, "node-1"), HasSubstr("is used up"));
  EXPECT_THAT(Refusal(token, "node-2", request), HasSubstr("is for node node-1, and not for node-2"));
}

TEST_F(NodeCertificatesTest, WrongTokensAreRefusedAlike) {
  const std::string token = Token("node-1"), other = Token("node-1");
  const std::vector<std::string> right = {token.substr(0, 8), token.substr(8, 12), token.substr(21, 64)};
  ASSERT_EQ(token.substr(0, 86), absl::StrCat(right[0], right[1], "_", right[2], "_"));
  for (const std::string& wrong :
       {std::string(), std::string("x"), std::string(1 << 20, 'a'), std::string("adjjoin___"),
        absl::StrCat(right[0], right[1], "__", token.substr(86)),
        absl::StrCat(right[0], "000000000000_", right[2], "_x"), absl::StrCat(other.substr(0, 21), token.substr(21)),
        absl::StrCat(token, "_"), std::string("\xff\x00\n", 3)}) {
    const auto refused = Join(wrong, "node-1");
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnauthenticated);
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr("the join token is not known here"));
  }
  EXPECT_TRUE(Join(token, "node-1").ok());
  now_ += absl::Hours(2);
  EXPECT_THAT(Refusal(other, "node-1"), HasSubstr("expired on"));
  EXPECT_EQ(nodes_->RevokeToken("x").code(), absl::StatusCode::kNotFound);
}

TEST_F(NodeCertificatesTest, HostileNamesAndRequestsAreRefusedAndCostNoUse) {
  const std::string token = Token("");
  for (const std::string& name : {std::string(), std::string("a/b"), std::string("n\n"), std::string("\xc3\xa9"),
                                  std::string("a b"), std::string(201, 'a'), std::string("a\0b", 3)}) {
    EXPECT_THAT(Refusal(token, name), HasSubstr("is no name of a node")) << name;
    EXPECT_FALSE(nodes_->CreateToken(name.empty() ? "/" : name, 1, 1).ok()) << name;
    EXPECT_FALSE(nodes_->Revoke(name).ok()) << name;
  }
  EXPECT_THAT(Refusal(token, "node-1", "junk"), HasSubstr("is no request"));
  EXPECT_THAT(Refusal(token, "node-1", std::string(1 << 20, '0')), HasSubstr("1048576 bytes"));
  EXPECT_EQ(nodes_->Tokens()[0].uses_left(), 1);
  for (const double hours : {0.0, -1.0, 1e9, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_FALSE(nodes_->CreateToken("node-1", 1, hours).ok()) << hours;
  }
  EXPECT_FALSE(nodes_->CreateToken("node-1", 0, 1).ok());
  EXPECT_FALSE(nodes_->CreateToken("node-1", 1000000, 1).ok());
}

TEST_F(NodeCertificatesTest, ATokenForAnyNodeGivesNobodyTheNameOfAnother) {
  ASSERT_TRUE(Join(Token("node-1"), "node-1").ok());
  const std::string any = Token("", 3, 48);
  EXPECT_THAT(Refusal(any, "node-1"), HasSubstr("node node-1 has a certificate until"));
  EXPECT_TRUE(Join(Token("node-1"), "node-1").ok()) << "who asks for a token for it means it";
  now_ += absl::Hours(25);
  EXPECT_TRUE(Join(any, "node-1").ok()) << "its certificates have expired";
}

TEST_F(NodeCertificatesTest, RevokedCertificatesStayRefusedAndLaterOnesCount) {
  auto before = Join(Token("node-1"), "node-1");
  ASSERT_TRUE(before.ok()) << before.status();
  const Certificate old = Shown(*before);
  EXPECT_EQ(nodes_->CheckNotRevoked("node-1", old), absl::OkStatus());
  const std::string own = Token("node-1"), any = Token("", 5);
  auto revoked = nodes_->Revoke("node-1");
  ASSERT_TRUE(revoked.ok()) << revoked.status();
  EXPECT_EQ(revoked->certificates(), 1);
  EXPECT_EQ(revoked->tokens(), 2) << "the used-up one, too";
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(nodes_->CheckNotRevoked("node-1", old).code(), absl::StatusCode::kUnauthenticated);
    EXPECT_EQ(nodes_->CheckNotRevoked("node-2", old), absl::OkStatus());
    EXPECT_THAT(Refusal(own, "node-1"), HasSubstr("is not known here"));
    EXPECT_THAT(Refusal(any, "node-1"), HasSubstr("was revoked"));
    Open();
  }
  now_ += absl::Seconds(1);
  auto again = Join(Token("node-1"), "node-1");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(nodes_->CheckNotRevoked("node-1", Shown(*again)), absl::OkStatus());
  EXPECT_FALSE(nodes_->CheckNotRevoked("node-1", old).ok());
  // One that tools/make-certs made, before and after.
  Certificate foreign;
  foreign.serial = "77";
  foreign.not_before = now_ - absl::Minutes(1);
  EXPECT_FALSE(nodes_->CheckNotRevoked("node-1", foreign).ok());
  foreign.not_before = now_;
  EXPECT_TRUE(nodes_->CheckNotRevoked("node-1", foreign).ok());
}

TEST_F(NodeCertificatesTest, RenewalsNeedACertificateThatHoldsAndAreBounded) {
  auto first = Join(Token("node-1"), "node-1");
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string serial = Shown(*first).serial;
  const auto gone = nodes_->Renew("node-1", NewRequest(), [] { return absl::UnauthenticatedError("revoked"); });
  EXPECT_EQ(gone.status().message(), "revoked");
  for (size_t i = 1; i < NodeCertificates::kMostOfOneNode; ++i) {
    const auto next = Renew("node-1", serial);
    ASSERT_TRUE(next.ok()) << i << next.status();
  }
  EXPECT_EQ(Renew("node-1", serial).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(Join(Token("node-2"), "node-2").ok());
  now_ += absl::Hours(25);
  steady_ += LongExpired::kBetweenLooks;
  EXPECT_TRUE(Join(Token("node-1"), "node-1").ok()) << "those that have expired do not count";
  EXPECT_THAT(store_->Nodes()->certificates, SizeIs(NodeCertificates::kMostOfOneNode + 2));
  steady_ += LongExpired::kTime;
  EXPECT_TRUE(Join(Token("node-3"), "node-3").ok());
  EXPECT_THAT(store_->Nodes()->certificates, SizeIs(2)) << "they are forgotten after a day";
}

TEST_F(NodeCertificatesTest, AClockThatWasAheadForAnHourForgetsNeitherCertificatesNorTokens) {
  auto joined = Join(Token("node-1"), "node-1");
  ASSERT_TRUE(joined.ok()) << joined.status();
  const std::string serial = Shown(*joined).serial, later = Token("node-4"), any = Token("", 5);
  now_ += absl::Hours(48);
  steady_ += LongExpired::kBetweenLooks;
  EXPECT_TRUE(Join(Token("node-2"), "node-2").ok());
  steady_ += absl::Hours(1);
  EXPECT_TRUE(Join(Token("node-3"), "node-3").ok());
  now_ -= absl::Hours(48);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(Renew("node-1", serial).ok());
    EXPECT_THAT(Refusal(any, "node-1"), HasSubstr("node node-1 has a certificate until"));
    Open();
  }
  EXPECT_TRUE(Join(later, "node-4").ok());
}

TEST_F(NodeCertificatesTest, WhereThereIsNoRoomThousandsOfThoseThatExpiredFirstGoAtOnce) {
  const size_t expired = LongExpired::kMostAtOnce + 10;
  NodeChanges changes;
  for (size_t i = 0; i < NodeCertificates::kMostCertificates; ++i) {
    StoredCertificate& row = changes.certificates.emplace_back();
    row.set_serial(absl::StrCat("serial-", i));
    row.set_node(absl::StrCat("node-", i));
    row.set_expires_unix_ms(
        absl::ToUnixMillis(i < expired ? now_ - absl::Hours(1) + absl::Milliseconds(i) : now_ + absl::Hours(1)));
    if (changes.certificates.size() < 10000) continue;
    ASSERT_EQ(store_->ApplyNodes(changes), absl::OkStatus());
    changes.certificates.clear();
  }
  Open();
  const auto joined = Join(Token("new"), "new");
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_THAT(store_->Nodes()->certificates,
              SizeIs(NodeCertificates::kMostCertificates - LongExpired::kMostAtOnce + 1));
  EXPECT_TRUE(absl::IsPermissionDenied(Renew("node-0", "serial-0").status())) << "it expired first";
  EXPECT_TRUE(Renew(absl::StrCat("node-", expired - 1), absl::StrCat("serial-", expired - 1)).ok()) << "it is known";
}

TEST_F(NodeCertificatesTest, TriesOfOneKeyWhoseAnswersGotLostCountOnce) {
  const std::string token = Token("node-1"), first = NewRequest(), second = NewRequest();
  ASSERT_TRUE(Join(token, "node-1", first).ok());
  auto joined = Join(token, "node-1", first);
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_THAT(store_->Nodes()->certificates, SizeIs(1));
  const std::string serial = Shown(*joined).serial;
  for (size_t i = 0; i < 2 * NodeCertificates::kMostOfOneNode; ++i) {
    const auto next = Renew("node-1", serial, second);
    ASSERT_TRUE(next.ok()) << i << next.status();
  }
  EXPECT_THAT(store_->Nodes()->certificates, SizeIs(2));
  // Nor is the one that is in use forgotten where its own key is asked for again.
  ASSERT_TRUE(Renew("node-1", serial, first).ok());
  EXPECT_TRUE(Renew("node-1", serial, first).ok());
  EXPECT_TRUE(Join(Token("node-2"), "node-2", second).ok()) << "a key stands for nothing at another node";
  EXPECT_THAT(store_->Nodes()->certificates, SizeIs(4));
}

TEST_F(NodeCertificatesTest, NodesAreSentOnlyAuthoritiesThatTheyCanUse) {
  const std::string file = folder_ + "/certs/ca.pem", token = Token("", 10);
  // What is in the file by mistake stays here.
  ASSERT_EQ(Shell("cp certs/ca.pem before && cat certs/ca.key >> certs/ca.pem"), 0);
  Open();
  EXPECT_THAT(*nodes_->ReadAuthorities(), AllOf(HasSubstr("BEGIN CERTIFICATE"), Not(HasSubstr("PRIVATE KEY"))));
  auto joined = Join(token, "node-1");
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_THAT(joined->authorities(), Not(HasSubstr("PRIVATE KEY")));

  // A file that cannot be read whole changes nothing.
  Open();  // the file is looked at again with the next call
  ASSERT_EQ(Shell("cp before next && head -c 300 before >> next && mv next certs/ca.pem"), 0);
  joined = Join(token, "node-2");
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(*nodes_->ReadAuthorities(), joined->authorities());

  // Authorities by which neither the coordinator nor its nodes are trusted any more: nothing is issued, nor stored.
  ASSERT_EQ(Shell("cp before certs/ca.pem"), 0);
  Open();
  MakeCerts("other", "--server localhost");
  ASSERT_EQ(Shell("mv other/ca.pem certs/ca.pem"), 0);
  const auto refused = Join(token, "node-3");
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("is not trusted by --tls-ca"));
  EXPECT_THAT(store_->Nodes()->certificates, SizeIs(2));
  EXPECT_EQ(nodes_->Tokens()[0].uses_left(), 8);
}

TEST_F(NodeCertificatesTest, OnlyWhatTheCoordinatorIssuedIsRenewed) {
  auto joined = Join(Token("node-1"), "node-1");
  ASSERT_TRUE(joined.ok()) << joined.status();
  const std::string serial = Shown(*joined).serial;
  for (const std::string& foreign : {std::string(), std::string("77")}) {
    const auto refused = Renew("node-1", foreign);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kPermissionDenied);
    EXPECT_THAT(std::string(refused.status().message()),
                AllOf(HasSubstr(absl::StrCat("serial ", foreign, " is none that this coordinator has issued")),
                      HasSubstr("is renewed with make-certs"), HasSubstr("adjoin token join --for node-1")));
  }
  EXPECT_EQ(Renew("node-2", serial).status().code(), absl::StatusCode::kPermissionDenied) << "another node's";
  Open();
  auto next = Renew("node-1", serial);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_TRUE(Renew("node-1", Shown(*next).serial).ok()) << "what was issued for it counts as much";
  ASSERT_TRUE(nodes_->Revoke("node-1").ok());
  EXPECT_EQ(Renew("node-1", Shown(*next).serial).status().code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(NodeCertificatesTest, WithoutAnIssuerNodesAreRevokedOnly) {
  NodeCertificates nodes(*store_, nullptr, {});
  EXPECT_EQ(nodes.CreateToken("node-1", 1, 1).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(nodes.Join({}).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(nodes.ReadAuthorities().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(nodes.Revoke("node-1").ok());
}

}  // namespace
}  // namespace adjoin
