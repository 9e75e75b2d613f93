#include "coordinator/page/request_checks.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>

namespace adjoin {
namespace {

HttpRequest Request(std::map<std::string, std::string> headers, bool encrypted = true) {
  HttpRequest request;
  request.headers = std::move(headers);
  request.encrypted = encrypted;
  return request;
}

TEST(RequestChecksTest, OverPlainHttpOnlyLoopbackIsMeant) {
  for (const char* host : {"localhost", "LOCALHOST:8080", "127.0.0.1:1", "127.3.2.1", "[::1]:99", "[::1]"}) {
    EXPECT_TRUE(CheckHost(Request({{"host", host}}, false)).ok()) << host;
  }
  for (const char* host : {"evil.example", "evil.example:8080", "localhost.evil.example", "10.0.0.1", "[::2]:1", "",
                           "127.0.0.1.evil.example", "[::1].evil.example.", "0.0.0.0"}) {
    EXPECT_FALSE(CheckHost(Request({{"host", host}}, false)).ok()) << host;
  }
  EXPECT_FALSE(CheckHost(Request({}, false)).ok());
  EXPECT_TRUE(CheckHost(Request({{"host", "coord.example"}})).ok());
}

TEST(RequestChecksTest, OnlyTheOwnOriginMayAct) {
  const std::string host = "coord.example:8443", own = "https://coord.example:8443";
  const auto action = [&](std::map<std::string, std::string> more) {
    more["host"] = host;
    return CheckAction(Request(std::move(more)));
  };
  EXPECT_TRUE(action({{"x-adjoin-action", "hold"}, {"origin", own}, {"sec-fetch-site", "same-origin"}}).ok());
  EXPECT_TRUE(action({{"x-adjoin-action", "hold"}, {"origin", own}}).ok());
  EXPECT_TRUE(action({{"x-adjoin-action", "hold"}}).ok()) << "a program";
  EXPECT_FALSE(action({{"origin", own}, {"sec-fetch-site", "same-origin"}}).ok()) << "a form";
  EXPECT_FALSE(action({{"x-adjoin-action", "hold"}, {"sec-fetch-site", "same-origin"}}).ok()) << "without an origin";
  for (const char* origin : {"http://coord.example:8443", "https://coord.example", "https://coord.example:8444",
                             "https://evil.example", "https://coord.example:8443.evil.example", "null"}) {
    EXPECT_FALSE(action({{"x-adjoin-action", "hold"}, {"origin", origin}}).ok()) << origin;
  }
  for (const char* site : {"cross-site", "same-site"}) {
    EXPECT_FALSE(action({{"x-adjoin-action", "hold"}, {"origin", own}, {"sec-fetch-site", site}}).ok()) << site;
  }
}

TEST(RequestChecksTest, ACookieIsNoProgram) {
  HttpRequest request = Request({{"host", "coord.example"}, {"x-adjoin-action", "hold"}});
  request.cookies[kTokenCookie] = "abc";
  EXPECT_FALSE(CheckAction(request).ok());
  request.headers["origin"] = "https://coord.example";
  EXPECT_TRUE(CheckAction(request).ok());
}

TEST(RequestChecksTest, ATokenCountsBeforeTheCertificate) {
  HttpRequest request = Request({});
  request.pem = "certificate";
  request.chain = "chain";
  EXPECT_EQ(CredentialsOf(request).pem, "certificate");
  EXPECT_EQ(CredentialsOf(request).chain, "chain");
  request.cookies[kTokenCookie] = "abc";
  EXPECT_EQ(CredentialsOf(request).token, "Bearer abc");
  EXPECT_EQ(CredentialsOf(request).pem, "");
  request.headers["authorization"] = "Bearer xyz";
  EXPECT_EQ(CredentialsOf(request).token, "Bearer xyz");
}

TEST(RequestChecksTest, ATokenCountsBeforeTheCertificateWhichIsThereWithoutIt) {
  HttpRequest request = Request({});
  request.pem = "certificate";
  EXPECT_FALSE(ShowsCookie(request));
  EXPECT_EQ(CredentialsOf(request).pem, "certificate");
  request.cookies[kTokenCookie] = "abc";
  EXPECT_TRUE(ShowsCookie(request));
  EXPECT_EQ(CredentialsOf(request).token, "Bearer abc");
  EXPECT_EQ(CredentialsOf(request).pem, "");
  EXPECT_EQ(CertificateOf(request).pem, "certificate");
  EXPECT_EQ(CertificateOf(request).token, "");
  request.headers["authorization"] = "Bearer def";
  EXPECT_FALSE(ShowsCookie(request));
  EXPECT_EQ(CredentialsOf(request).token, "Bearer def");
}

}  // namespace
}  // namespace adjoin
