// What tests with certificates share: a folder of the test's own, in which tools/make-certs makes them.
//
//   class ServerTest : public CertificatesTest {
//     void SetUp() override { MakeCerts("certs", "--server localhost,127.0.0.1 --client user alice"); }
//   };
//   TEST_F(ServerTest, ...) {
//     auto credentials = MakeServerCredentials(endpoint, Files("server"));
//   }
#ifndef ADJOIN_BASE_SECURITY_CERTIFICATES_FIXTURE_H_
#define ADJOIN_BASE_SECURITY_CERTIFICATES_FIXTURE_H_

#include <stdlib.h>

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/security/tls.h"

namespace adjoin {

class CertificatesTest : public ::testing::Test {
 protected:
  CertificatesTest()
      : folder_(
            absl::StrCat(getenv("TEST_TMPDIR"), "/", ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::create_directories(folder_);
  }
  // Runs a command in the folder; returns 0 where it succeeds. What it prints goes into the file "log" there.
  int Shell(const std::string& command) const {
    return system(absl::StrCat("cd ", folder_, " && { ", command, " ; } > log 2>&1").c_str());
  }
  // Runs make-certs for `certs`, a folder below, with the arguments `what`.
  void MakeCerts(const std::string& certs, const std::string& what) const {
    ASSERT_EQ(Shell(absl::StrCat(getenv("TEST_SRCDIR"), "/", getenv("TEST_WORKSPACE"), "/tools/make-certs ", certs, " ",
                                 what)),
              0)
        << what;
  }
  // Returns the files of "server", or of a client by its role and name, such as "user-alice".
  TlsFiles Files(const std::string& who, const std::string& certs = "certs") const {
    const std::string base = absl::StrCat(folder_, "/", certs, "/");
    return {base + "ca.pem", base + who + ".pem", base + who + ".key"};
  }

  const std::string folder_;
};

}  // namespace adjoin

#endif  // ADJOIN_BASE_SECURITY_CERTIFICATES_FIXTURE_H_
