#include "base/trace_file.h"

#include <gtest/gtest.h>

namespace adjoin {
namespace {

TEST(TraceFileTest, NamesAreTold) {
  EXPECT_EQ(TraceFileName(41, 45), "trace-41-45.pftrace");
  EXPECT_TRUE(IsTraceFile(TraceFileName(1, 1000)));
  for (const char* other : {"", "trace-.pftrace", "trace-1.pftrace", "trace-1-.pftrace", "trace--1.pftrace",
                            "trace-1-2.pftrac", "trace-1-2-3.pftrace", "trace-1-x.pftrace", "../trace-1-2.pftrace",
                            "metrics.jsonl", "trace-1-99999999999999999999.pftrace"}) {
    EXPECT_FALSE(IsTraceFile(other)) << other;
  }
}

}  // namespace
}  // namespace adjoin
