// Stands before protobuf's header of this name under --config=tsan. Where the compiler instruments for the thread
// sanitizer, protobuf's MapFieldBase has two members more. Debian's libprotobuf is compiled without: it would look for
// all others 8 bytes off in our messages, and crash. So this one file is read as the library's compiler read it; the
// functions in it are instrumented all the same.
//
// Nothing else needs this. protobuf's port_def.inc and gRPC's port_platform.h derive macros that no header asks for;
// absl's headers declare functions of the sanitizer, and a constant for absl's own sources.
#ifndef ADJOIN_THIRD_PARTY_TSAN_INCLUDE_GOOGLE_PROTOBUF_MAP_FIELD_H_
#define ADJOIN_THIRD_PARTY_TSAN_INCLUDE_GOOGLE_PROTOBUF_MAP_FIELD_H_

// What it includes by itself, so that these are read as everywhere else: the standard library asks for the macro too.
#include <google/protobuf/arena.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/generated_message_reflection.h>
#include <google/protobuf/generated_message_util.h>
#include <google/protobuf/map_entry.h>
#include <google/protobuf/map_field_lite.h>
#include <google/protobuf/map_type_handler.h>
#include <google/protobuf/message.h>
#include <google/protobuf/port.h>
#include <google/protobuf/repeated_field.h>
#include <google/protobuf/stubs/mutex.h>
#include <google/protobuf/unknown_field_set.h>

#include <atomic>
#include <functional>

#pragma push_macro("__SANITIZE_THREAD__")
#undef __SANITIZE_THREAD__
#include_next <google/protobuf/map_field.h>
#pragma pop_macro("__SANITIZE_THREAD__")

#endif  // ADJOIN_THIRD_PARTY_TSAN_INCLUDE_GOOGLE_PROTOBUF_MAP_FIELD_H_
