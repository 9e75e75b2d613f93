#include "base/security/authority_pin.h"

#include <openssl/x509_vfy.h>

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/security/openssl_handles.h"

namespace adjoin {
namespace {

constexpr size_t kMostAuthorities = 1000;
constexpr size_t kMostChain = 16;

std::string Shown(absl::Time time) { return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", time, absl::UTCTimeZone()); }

std::string PinOf(X509* certificate) { return absl::BytesToHexString(KeyHash(X509_get_X509_PUBKEY(certificate))); }

}  // namespace

absl::StatusOr<std::string> PinOfAuthority(const std::string& chain, const std::string& authorities) {
  const std::vector<X509Ptr> shown = ParsePem(chain, kMostChain);
  const std::vector<X509Ptr> trusted = ParsePem(authorities, kMostAuthorities);
  std::unique_ptr<X509_STORE, OpensslFree<X509_STORE, X509_STORE_free>> store(X509_STORE_new());
  for (const X509Ptr& authority : trusted) X509_STORE_add_cert(store.get(), authority.get());
  std::unique_ptr<STACK_OF(X509), StackFree> untrusted(sk_X509_new_null());
  for (const X509Ptr& other : shown) sk_X509_push(untrusted.get(), other.get());
  ContextPtr context(X509_STORE_CTX_new());
  if (!shown.empty()) X509_STORE_CTX_init(context.get(), store.get(), shown[0].get(), untrusted.get());
  const bool good = !shown.empty() && X509_verify_cert(context.get()) == 1;
  ERR_clear_error();
  if (!good) return absl::UnauthenticatedError("none of the authorities has signed the certificate");
  STACK_OF(X509)* path = X509_STORE_CTX_get0_chain(context.get());
  return PinOf(sk_X509_value(path, sk_X509_num(path) - 1));
}

absl::StatusOr<std::string> FindPinned(const std::string& authorities, const std::string& pin, absl::Time now) {
  std::string why = "none of its authorities has the public key that the token names";
  for (const X509Ptr& authority : ParsePem(authorities, kMostAuthorities)) {
    if (PinOf(authority.get()) != pin) continue;
    const bool signed_itself = X509_self_signed(authority.get(), /*verify_signature=*/1) == 1;
    ERR_clear_error();
    const absl::Time begin = TimeOf(X509_get0_notBefore(authority.get()));
    const absl::Time end = TimeOf(X509_get0_notAfter(authority.get()));
    if (!signed_itself) {
      why = "the certificate with the public key that the token names is not signed with that key";
    } else if (now < begin) {
      why = absl::StrCat("its authority is not valid before ", Shown(begin), ", and here it is ", Shown(now),
                         ": is one of the two clocks wrong?");
    } else if (now >= end) {
      why = absl::StrCat("its authority expired on ", Shown(end), ", and here it is ", Shown(now));
    } else {
      return PemOf(authority.get());
    }
  }
  return absl::UnauthenticatedError(why);
}

bool SharesAuthority(const std::string& some, const std::string& others) {
  const std::vector<X509Ptr> known = ParsePem(some, kMostAuthorities);
  for (const X509Ptr& other : ParsePem(others, kMostAuthorities)) {
    for (const X509Ptr& one : known) {
      if (IsSameAuthority(one.get(), other.get())) return true;
    }
  }
  return false;
}

}  // namespace adjoin
