// The options of the thread sanitizer for executables with gRPC. TSAN_OPTIONS can set other values.

// libgrpc, libssl and what they use are not instrumented, and order most of what they do with atomic variables, which
// the sanitizer does not see. It does see what they copy and free, and would report dozens of races in every call. So
// it ignores what libraries that are not instrumented copy and free. Mutexes count there all the same, and so does
// everything in our own code. Rank processes end by _exit, with threads that are not joined.
extern "C" const char* __tsan_default_options() { return "ignore_noninstrumented_modules=1:report_thread_leaks=0"; }

// A batch of operations comes to its end in another thread than it was started in, and a reactor's OnDone after its
// last callback has returned; what orders them are queues and counts in libgrpc. FinalizeResult has returned when our
// callback is called, so that this one is watched.
extern "C" const char* __tsan_default_suppressions() {
  return "race:::FinalizeResult(\n"
         "race:::CallOnDone(\n";
}
