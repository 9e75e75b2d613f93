"""C++ libraries from .proto files with the system's protoc and grpc_cpp_plugin.

Message and service libraries are separate targets, so that what only reads messages does not link gRPC.
"""

_OPTIONS = "namespace google::protobuf { class FieldOptions; class EnumValueOptions; }"

def cc_message_library(name, src, deps = [], visibility = None):
    """`src`'s messages: NAME.pb.h, NAME.pb.cc. `deps` are other cc_message_library targets that it imports."""
    base = src[:-len(".proto")]
    native.genrule(
        name = name + "_protoc",
        srcs = [src] + [d + "_proto" for d in deps],
        outs = [base + ".pb.h", base + ".pb.cc"],
        # Without the comments, which repeat those of the .proto file: a change of one would compile almost everything anew.
        # A declaration stands for descriptor.pb.h, which only the options of our own fields need: a third of a second of
        # compiling in each file that includes the messages.
        cmd = " && ".join([
            "protoc -I. --cpp_out=$(GENDIR) $(location %s)" % src,
            "sed -i -e '/^ *\\/\\//d' -e 's|^#include <google/protobuf/descriptor.pb.h>$$|%s|' $(RULEDIR)/%s.pb.h" % (_OPTIONS, base),
            "sed -i '1i #include <google/protobuf/descriptor.pb.h>' $(RULEDIR)/%s.pb.cc" % base,
        ]),
    )
    native.filegroup(
        name = name + "_proto",
        srcs = [src] + [d + "_proto" for d in deps],
        visibility = visibility,
    )
    native.cc_library(
        name = name,
        srcs = [base + ".pb.cc"],
        hdrs = [base + ".pb.h"],
        copts = ["-w"],
        deps = deps + ["//third_party:protobuf"],
        visibility = visibility,
    )

def cc_service_library(name, src, deps, visibility = None):
    """`src`'s gRPC services: NAME.grpc.pb.h, NAME.grpc.pb.cc. `deps` holds the cc_message_library of `src`."""
    base = src[:-len(".proto")]
    native.genrule(
        name = name + "_protoc",
        srcs = [src] + [d + "_proto" for d in deps],
        outs = [base + ".grpc.pb.h", base + ".grpc.pb.cc"],
        cmd = "protoc -I. --plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin --grpc_out=$(GENDIR) $(location %s)" % src,
    )
    native.cc_library(
        name = name,
        srcs = [base + ".grpc.pb.cc"],
        hdrs = [base + ".grpc.pb.h"],
        copts = ["-w"],
        deps = deps + ["//third_party:grpc"],
        visibility = visibility,
    )
