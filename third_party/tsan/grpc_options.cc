// libgrpc, libssl and what they use are not instrumented, and order most of what they do with atomic variables, which the
// thread sanitizer does not see. It does see what they copy and free, and would report dozens of races in every call. So in
// executables with gRPC it ignores what libraries that are not instrumented copy and free. Mutexes count there all the same,
// and so does everything in our own code. TSAN_OPTIONS can set other values.
extern "C" const char* __tsan_default_options() { return "ignore_noninstrumented_modules=1"; }
