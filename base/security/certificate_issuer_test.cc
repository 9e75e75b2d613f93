// What is issued is judged by the command openssl, and requests are made with it as well as with our own code.
#include "base/security/certificate_issuer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/security/authority_pin.h"
#include "base/security/certificate.h"
#include "base/security/certificate_request.h"

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class CertificateIssuerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(getenv("TEST_TMPDIR"), "/", ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
    ASSERT_EQ(Shell(absl::StrCat(getenv("TEST_SRCDIR"), "/", getenv("TEST_WORKSPACE"),
                                 "/tools/make-certs certs --server localhost --client user alice")),
              0);
    auto issuer = CertificateIssuer::Open(folder_ + "/certs/ca.pem", folder_ + "/certs/ca.key");
    ASSERT_TRUE(issuer.ok()) << issuer.status();
    issuer_ = *std::move(issuer);
  }
  int Shell(const std::string& command) {
    return system(absl::StrCat("cd ", folder_, " && { ", command, " ; } > out 2> err").c_str());
  }
  std::string Read(const std::string& name) {
    std::ifstream stream(absl::StrCat(folder_, "/", name), std::ios::binary);
    return std::string((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(absl::StrCat(folder_, "/", name), std::ios::binary) << text;
  }
  // A request that openssl makes with a key of these options.
  std::string RequestOf(const std::string& key, const std::string& more = "") {
    EXPECT_EQ(Shell(absl::StrCat("openssl genpkey ", key, " -out k && openssl req -new -key k -outform DER -out r ",
                                 "-subj /CN=admin ", more)),
              0)
        << key << ": " << Read("err");
    return Read("r");
  }
  std::string Refusal(const std::string& request) {
    return std::string(RequestedKey::Read(request).status().message());
  }

  std::string folder_;
  std::unique_ptr<CertificateIssuer> issuer_;
};

TEST_F(CertificateIssuerTest, WhatIsIssuedIsOfTheNodeForAsLongAsWasSaid) {
  // The authority has just been made, and counts from then on.
  const absl::Time now = absl::Now() + absl::Hours(1);
  auto own = MakeKeyAndRequest();
  ASSERT_TRUE(own.ok()) << own.status();
  auto key = RequestedKey::Read(own->request_der);
  ASSERT_TRUE(key.ok()) << key.status();
  auto made = issuer_->Issue(*key, "node-1", now, absl::Hours(24));
  ASSERT_TRUE(made.ok()) << made.status();
  Write("node.pem", made->pem + own->key_pem);
  std::filesystem::permissions(folder_ + "/node.pem", std::filesystem::perms::owner_read);
  EXPECT_EQ(CheckKey(folder_ + "/node.pem", folder_ + "/node.pem"), absl::OkStatus());
  const std::string verify =
      absl::StrCat("openssl verify -attime ", absl::ToUnixSeconds(now), " -x509_strict -CAfile certs/ca.pem -purpose ");
  EXPECT_EQ(Shell(verify + "sslclient node.pem"), 0) << Read("err");
  EXPECT_NE(Shell(verify + "sslserver node.pem"), 0);
  ASSERT_EQ(Shell("openssl x509 -in node.pem -noout -serial -ext basicConstraints,keyUsage,extendedKeyUsage,"
                  "subjectAltName"),
            0);
  EXPECT_THAT(Read("out"), HasSubstr("URI:adjoin://worker/node-1"));
  EXPECT_THAT(Read("out"), HasSubstr("CA:FALSE"));
  EXPECT_THAT(Read("out"), Not(HasSubstr("TLS Web Server")));

  auto authorities = Authorities::Open(folder_ + "/certs/ca.pem");
  ASSERT_TRUE(authorities.ok()) << authorities.status();
  const auto check = [&](absl::Duration later) {
    return (*authorities)->Check(made->pem, "", CertificatePurpose::kClient, now + later);
  };
  // A clock that is four minutes slow, one that is right, and the end.
  EXPECT_TRUE(check(-absl::Minutes(4)).ok()) << check(-absl::Minutes(4)).status();
  EXPECT_FALSE(check(-absl::Minutes(6)).ok());
  EXPECT_TRUE(check(absl::Hours(23.9)).ok());
  EXPECT_FALSE(check(absl::Hours(24.1)).ok());
  EXPECT_FALSE((*authorities)->Check(made->pem, "", CertificatePurpose::kClient, absl::Now()).ok()) << "not yet";
  EXPECT_TRUE((*authorities)->Check(made->pem, "", CertificatePurpose::kClient, std::nullopt).ok()) << "at any time";
  EXPECT_FALSE((*authorities)->Check(made->pem, "", CertificatePurpose::kServer, std::nullopt).ok());
  EXPECT_THAT(check(absl::ZeroDuration())->uris, ElementsAre("adjoin://worker/node-1"));
  EXPECT_EQ(check(absl::ZeroDuration())->serial, made->serial);
  EXPECT_THAT(absl::AsciiStrToLower(Read("out")), HasSubstr(absl::StrCat("serial=", made->serial)));

  // It never outlives its issuer, which make-certs makes for 10 years.
  auto longest = issuer_->Issue(*key, "node-1", now, absl::Hours(24 * 365 * 50));
  ASSERT_TRUE(longest.ok()) << longest.status();
  EXPECT_LT(longest->not_after, now + absl::Hours(24 * 366 * 11));
  EXPECT_FALSE(issuer_->Issue(*key, "node-1", now + absl::Hours(24 * 366 * 11), absl::Hours(1)).ok());
}

TEST_F(CertificateIssuerTest, ARequestCountsForItsKeyAlone) {
  auto key =
      RequestedKey::Read(RequestOf("-algorithm EC -pkeyopt ec_paramgen_curve:P-384",
                                   "-addext subjectAltName=URI:adjoin://admin/root "
                                   "-addext basicConstraints=critical,CA:TRUE -addext extendedKeyUsage=serverAuth"));
  ASSERT_TRUE(key.ok()) << key.status();
  auto made = issuer_->Issue(*key, "node-1", absl::Now(), absl::Hours(1));
  ASSERT_TRUE(made.ok()) << made.status();
  Write("node.pem", made->pem);
  ASSERT_EQ(Shell("openssl x509 -in node.pem -noout -text"), 0);
  for (const char* asked : {"admin", "CA:TRUE", "TLS Web Server"}) EXPECT_THAT(Read("out"), Not(HasSubstr(asked)));
}

TEST_F(CertificateIssuerTest, OnlyStrongKeysWithAProofAreTaken) {
  EXPECT_EQ(Refusal(RequestOf("-algorithm RSA -pkeyopt rsa_keygen_bits:2048")), "");
  EXPECT_EQ(Refusal(RequestOf("-algorithm EC -pkeyopt ec_paramgen_curve:P-256")), "");
  for (const char* weak :
       {"-algorithm RSA -pkeyopt rsa_keygen_bits:1024", "-algorithm ED25519",
        "-algorithm EC -pkeyopt ec_paramgen_curve:secp256k1", "-algorithm EC -pkeyopt ec_paramgen_curve:P-224"}) {
    EXPECT_THAT(Refusal(RequestOf(weak)), HasSubstr("has a key that is not taken")) << weak;
  }
  const std::string good = RequestOf("-algorithm EC -pkeyopt ec_paramgen_curve:P-256");
  EXPECT_THAT(Refusal(good + "x"), HasSubstr("is no request"));
  EXPECT_THAT(Refusal(good.substr(0, good.size() / 2)), HasSubstr("is no request"));
  EXPECT_THAT(Refusal(""), HasSubstr("is no request"));
  EXPECT_THAT(Refusal(std::string(20000, 'x')), HasSubstr("20000 bytes"));
  // Each byte changed: parsed or not, none is taken for a request with another content than was signed.
  for (size_t i = 0; i < good.size(); ++i) {
    std::string changed = good;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    const auto read = RequestedKey::Read(changed);
    EXPECT_FALSE(read.ok()) << "byte " << i;
  }
}

TEST_F(CertificateIssuerTest, AnIssuerNeedsAnAuthoritysCertificateAndItsKey) {
  const auto refusal = [&](const std::string& certificate, const std::string& key) {
    return std::string(
        CertificateIssuer::Open(folder_ + "/certs/" + certificate, folder_ + "/certs/" + key).status().message());
  };
  EXPECT_THAT(refusal("user-alice.pem", "user-alice.key"), HasSubstr("is not the certificate of an authority"));
  EXPECT_THAT(refusal("ca.pem", "user-alice.key"), HasSubstr("is not the key of"));
  std::filesystem::permissions(folder_ + "/certs/ca.key", std::filesystem::perms::others_read,
                               std::filesystem::perm_options::add);
  EXPECT_THAT(refusal("ca.pem", "ca.key"), HasSubstr("every user of this machine may read"));
}

TEST_F(CertificateIssuerTest, AnIntermediateAuthorityIsShownWithWhatItSigns) {
  ASSERT_EQ(Shell("printf 'basicConstraints=critical,CA:TRUE,pathlen:0\\nkeyUsage=critical,keyCertSign\\n"
                  "subjectKeyIdentifier=hash\\n' > x && openssl req -x509 -newkey ec -pkeyopt "
                  "ec_paramgen_curve:P-256 -nodes -keyout root.key -out root.pem -subj /CN=root -days 30 && "
                  "openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout sub.key -out sub.csr "
                  "-subj /CN=sub && openssl x509 -req -in sub.csr -CA root.pem -CAkey root.key -set_serial 5 -days 20 "
                  "-extfile x -out sub.pem && cat root.pem >> sub.pem"),
            0)
      << Read("err");
  auto issuer = CertificateIssuer::Open(folder_ + "/sub.pem", folder_ + "/sub.key");
  ASSERT_TRUE(issuer.ok()) << issuer.status();
  auto own = MakeKeyAndRequest();
  auto key = RequestedKey::Read(own->request_der);
  auto made = (*issuer)->Issue(*key, "node-1", absl::Now(), absl::Hours(1));
  ASSERT_TRUE(made.ok()) << made.status();
  auto authorities = Authorities::Open(folder_ + "/root.pem");
  ASSERT_TRUE(authorities.ok()) << authorities.status();
  auto checked = (*authorities)->Check(made->pem, made->pem, CertificatePurpose::kClient, absl::Now());
  EXPECT_TRUE(checked.ok()) << checked.status();
}

TEST_F(CertificateIssuerTest, APinIsTheHashOfTheAuthoritysPublicKey) {
  ASSERT_EQ(Shell("openssl x509 -in certs/ca.pem -noout -pubkey | openssl pkey -pubin -outform DER | "
                  "openssl dgst -sha256 -r | cut -c1-64 | tr -d '\\n'"),
            0);
  const std::string hash = Read("out");
  ASSERT_EQ(Shell(absl::StrCat(getenv("TEST_SRCDIR"), "/", getenv("TEST_WORKSPACE"),
                               "/tools/make-certs other --server localhost")),
            0);
  const std::string both = Read("other/ca.pem") + Read("certs/ca.pem");
  auto pin = PinOfAuthority(Read("certs/server.pem"), both);
  ASSERT_TRUE(pin.ok()) << pin.status();
  EXPECT_EQ(*pin, hash);
  EXPECT_EQ(*FindPinned(both, *pin, absl::Now()), Read("certs/ca.pem"));
  EXPECT_FALSE(FindPinned(Read("other/ca.pem"), *pin, absl::Now()).ok());
  EXPECT_FALSE(PinOfAuthority(Read("certs/server.pem"), Read("other/ca.pem")).ok());
  EXPECT_FALSE(PinOfAuthority("", both).ok());
  EXPECT_TRUE(SharesAuthority(both, Read("other/ca.pem")));
  EXPECT_FALSE(SharesAuthority(Read("certs/ca.pem"), Read("other/ca.pem")));
  EXPECT_FALSE(SharesAuthority(both, ""));
}

TEST_F(CertificateIssuerTest, APinIsOfWhatHasSignedItselfAndIsValid) {
  const auto pin = PinOfAuthority(Read("certs/server.pem"), Read("certs/ca.pem"));
  ASSERT_TRUE(pin.ok()) << pin.status();
  const auto why = [&](const std::string& authorities, absl::Time now = absl::Now()) {
    return std::string(FindPinned(authorities, *pin, now).status().message());
  };
  EXPECT_EQ(why(Read("certs/ca.pem")), "");
  // The same public key, in a certificate that another has signed: with a name of its own, and with that of the other.
  const std::string make = absl::StrCat(getenv("TEST_SRCDIR"), "/", getenv("TEST_WORKSPACE"), "/tools/make-certs ");
  ASSERT_EQ(Shell(make + "other --server localhost"), 0);
  for (const char* name : {"-subj /CN=forged",
                           "-subj \"$(openssl x509 -in other/ca.pem -noout -subject -nameopt compat "
                           "| cut -d= -f2-)\""}) {
    ASSERT_EQ(Shell(absl::StrCat("printf 'basicConstraints=critical,CA:TRUE\n' > x && openssl x509 -in certs/ca.pem ",
                                 "-noout -pubkey > k && openssl req -new -key other/ca.key ", name, " -out r && ",
                                 "openssl x509 -req -in r -force_pubkey k -CA other/ca.pem -CAkey other/ca.key ",
                                 "-set_serial 9 -days 9 -extfile x -out forged.pem")),
              0)
        << Read("err");
    EXPECT_THAT(why(Read("forged.pem")), HasSubstr("is not signed with that key")) << name;
    EXPECT_EQ(why(Read("forged.pem") + Read("certs/ca.pem")), "") << "the right one is there, too";
  }
  EXPECT_THAT(why(Read("certs/ca.pem"), absl::Now() - absl::Hours(24)), HasSubstr("is one of the two clocks wrong?"));
  EXPECT_THAT(why(Read("certs/ca.pem"), absl::Now() + absl::Hours(24 * 366 * 11)), HasSubstr("expired on"));
}

TEST_F(CertificateIssuerTest, ARenewedAuthorityIsTheSameOne) {
  ASSERT_EQ(Shell("openssl x509 -in certs/ca.pem -signkey certs/ca.key -days 20 -set_serial 77 -out renewed.pem && "
                  "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out k && openssl x509 -in "
                  "certs/ca.pem -noout -subject -nameopt compat | cut -d= -f2- > n && openssl req -x509 -new -key k "
                  "-subj \"$(cat n)\" -days 20 -out namesake.pem"),
            0)
      << Read("err");
  EXPECT_TRUE(SharesAuthority(Read("certs/ca.pem"), Read("renewed.pem")));
  EXPECT_FALSE(SharesAuthority(Read("certs/ca.pem"), Read("namesake.pem"))) << "its name, and another key";
}

TEST_F(CertificateIssuerTest, AuthoritiesAreShownAsTheyAreTrustedAndWithoutWhatElseTheFileHas) {
  const std::string make = absl::StrCat(getenv("TEST_SRCDIR"), "/", getenv("TEST_WORKSPACE"), "/tools/make-certs ");
  ASSERT_EQ(Shell(absl::StrCat(make, "certs --revoke user-alice && ", make, "other --server localhost")), 0);
  const std::string key = Read("certs/ca.key"), other = Read("other/ca.pem"), own = Read("certs/ca.pem");
  Write("all.pem", absl::StrCat("# ours\n", key, own, other));
  auto authorities = Authorities::Open(folder_ + "/all.pem");
  ASSERT_TRUE(authorities.ok()) << authorities.status();
  const std::string shown = (*authorities)->Pem();
  EXPECT_THAT(shown, Not(HasSubstr("PRIVATE KEY")));
  EXPECT_THAT(shown, Not(HasSubstr("# ours")));
  EXPECT_THAT(shown, HasSubstr(other));
  EXPECT_THAT(shown, HasSubstr("BEGIN X509 CRL"));
  Write("shown.pem", shown);
  EXPECT_THAT(ListsOf(own, folder_ + "/shown.pem").value(), HasSubstr("BEGIN X509 CRL"));
  EXPECT_EQ(ListsOf(other, folder_ + "/shown.pem").value(), "") << "it is another one's";
  EXPECT_EQ(ListsOf(own, folder_ + "/other/ca.pem").value(), "");
  EXPECT_EQ(ListsOf(own, folder_ + "/nothing").value(), "");
  EXPECT_TRUE(Authorities::Open(folder_ + "/shown.pem").ok());
  EXPECT_EQ(CheckHasNoPrivateKey(folder_ + "/shown.pem"), absl::OkStatus());
  EXPECT_THAT(std::string(CheckHasNoPrivateKey(folder_ + "/all.pem").message()),
              HasSubstr("all.pem holds a private key"));

  // One that is cut off or damaged is not left out without a word.
  for (std::string second : {other.substr(0, other.size() / 2), std::string(other).replace(40, 8, "AAAAAAAA")}) {
    Write("cut.pem", own + second);
    EXPECT_THAT(std::string(Authorities::Open(folder_ + "/cut.pem").status().message()),
                HasSubstr("holds 2 certificates, of which 1 can be read"));
  }
}

TEST_F(CertificateIssuerTest, ADamagedListIsAnErrorAndNothingDamagedHidesOne) {
  const std::string make = absl::StrCat(getenv("TEST_SRCDIR"), "/", getenv("TEST_WORKSPACE"), "/tools/make-certs ");
  ASSERT_EQ(Shell(absl::StrCat(make, "certs --revoke user-alice && ", make, "other --client user eve && ", make,
                               "other --revoke user-eve && for ca in certs other; do openssl x509 -in $ca/ca.pem -out ",
                               "$ca.pem && openssl crl -in $ca/ca.pem -out $ca.list || exit 1; done")),
            0)
      << Read("err");
  const std::string own = Read("certs.pem"), list = Read("certs.list");
  const std::string other = Read("other.pem"), other_list = Read("other.list");
  const auto broken = [](std::string block) { return block.replace(40, 8, "********"); };
  const auto lists = [&](const std::string& text) {
    Write("all.pem", text);
    return ListsOf(own, folder_ + "/all.pem");
  };
  const std::string half = own.substr(0, own.size() / 2) + "\n";
  for (const std::string& before : {own, own + other + other_list, std::string("junk\n"), broken(own), half}) {
    const auto found = lists(before + list);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(*found, list) << before;
  }
  EXPECT_EQ(lists(broken(own)).value(), "");

  // It parses, and is not what was signed.
  std::string flipped = list;
  size_t at = flipped.find("\n-----END") - 12;
  if (flipped[at] == '\n') --at;
  flipped[at] = flipped[at] == 'A' ? 'B' : 'A';
  const std::string headless = list.substr(list.find('\n') + 1), endless = list.substr(0, list.find("-----END"));
  for (const std::string& damaged : {broken(list), flipped, headless, endless}) {
    for (const std::string& text :
         {own + damaged, own + damaged + list, own + list + damaged, own + damaged + other + other_list + list}) {
      EXPECT_THAT(std::string(lists(text).status().message()), HasSubstr("all.pem holds a revocation list")) << text;
      EXPECT_THAT(std::string(Authorities::Open(folder_ + "/all.pem").status().message()),
                  HasSubstr("all.pem holds a revocation list"))
          << text;
    }
  }
}

TEST_F(CertificateIssuerTest, WhatAnEarlierListHasStaysRevoked) {
  const std::string make = absl::StrCat(getenv("TEST_SRCDIR"), "/", getenv("TEST_WORKSPACE"), "/tools/make-certs ");
  const auto why = [&](const std::string& name) {
    const std::string pem = Read(absl::StrCat("certs/", name));
    auto authorities = Authorities::Open(folder_ + "/certs/ca.pem");
    EXPECT_TRUE(authorities.ok()) << authorities.status();
    if (!authorities.ok()) return std::string();
    return std::string((*authorities)->Check(pem, "", CertificatePurpose::kClient, absl::Now()).status().message());
  };
  // The list is of another folder: the file from which this one would make it anew lacks alice. A namesake's stays.
  ASSERT_EQ(Shell(absl::StrCat(make, "certs --client user bob && ", make, "certs --revoke user-alice && ",
                               "rm certs/revoked && openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 ",
                               "-out k && mkdir namesake && cp k namesake/ca.key && openssl req -x509 -new -key k ",
                               "-subj \"$(openssl x509 -in certs/ca.pem -noout -subject -nameopt compat | ",
                               "cut -d= -f2-)\" -days 20 -addext keyUsage=critical,keyCertSign,cRLSign ",
                               "-out namesake/ca.pem && ", make, "namesake --client user eve && ", make,
                               "namesake --revoke user-eve && ",
                               "{ echo '# first'; sed 's/^-----END.*/&\\n\\n# between/' certs/ca.pem; ",
                               "cat namesake/ca.pem; echo '# last'; } > all && mv all certs/ca.pem")),
            0)
      << Read("err");
  ASSERT_EQ(Shell(make + "certs --revoke user-bob"), 0) << Read("err");
  EXPECT_THAT(Read("out"), HasSubstr("kept from the list in certs/ca.pem"));
  for (const char* text : {"# first", "# between", "# last"}) EXPECT_THAT(Read("certs/ca.pem"), HasSubstr(text));
  EXPECT_THAT(why("user-alice.pem.revoked"), HasSubstr("was revoked on"));
  EXPECT_THAT(why("user-bob.pem.revoked"), HasSubstr("was revoked on"));
  ASSERT_EQ(Shell("cp namesake/user-eve.pem.revoked certs/eve.pem"), 0);
  EXPECT_THAT(why("eve.pem"), HasSubstr("was revoked on"));
}

TEST_F(CertificateIssuerTest, TheAuthorityOfTheKeySignsWhereverItStandsInTheFile) {
  const std::string make = absl::StrCat(getenv("TEST_SRCDIR"), "/", getenv("TEST_WORKSPACE"), "/tools/make-certs ");
  ASSERT_EQ(Shell(absl::StrCat(make, "other --server localhost && cp certs/ca.pem own.pem && ",
                               "{ echo '# theirs'; cat other/ca.pem; echo '# ours'; cat own.pem; } > certs/ca.pem && ",
                               make, "certs --client user bob --server example.org")),
            0)
      << Read("err");
  for (const char* name : {"user-bob", "server"}) {
    EXPECT_EQ(Shell(absl::StrCat("openssl verify -CAfile own.pem certs/", name, ".pem")), 0) << Read("err");
    EXPECT_NE(Shell(absl::StrCat("openssl verify -CAfile other/ca.pem certs/", name, ".pem")), 0);
  }
  // Where none is the key's, nothing is left half made.
  ASSERT_EQ(Shell("cp other/ca.pem certs/ca.pem"), 0);
  EXPECT_NE(Shell(make + "certs --client user carol"), 0);
  EXPECT_THAT(Read("err"), HasSubstr("no certificate in certs/ca.pem is that of certs/ca.key"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/certs/user-carol.key"));
}

TEST_F(CertificateIssuerTest, AKeyThatIsThereIsAskedForAgain) {
  auto own = MakeKeyAndRequest();
  ASSERT_TRUE(own.ok()) << own.status();
  auto again = MakeRequest(own->key_pem);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(RequestedKey::Read(own->request_der)->sha256(), RequestedKey::Read(again->request_der)->sha256());
  EXPECT_FALSE(MakeRequest("").ok());
}

}  // namespace
}  // namespace adjoin
