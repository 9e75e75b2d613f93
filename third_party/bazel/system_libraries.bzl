"""Which libraries this machine has, where that differs between releases: @system_libraries//:found.bzl."""

# Abseil's libraries that our code refers to by itself, in one release or another.
_ABSL = [
    "bad_optional_access", "bad_variant_access", "base", "city", "civil_time", "cord", "cord_internal",
    "cordz_functions", "cordz_handle", "cordz_info", "debugging_internal", "demangle_internal", "exponential_biased",
    "graphcycles_internal", "hash", "hashtablez_sampler", "int128", "kernel_timeout_internal", "log_severity",
    "low_level_hash", "malloc_internal", "random_distributions", "random_internal_platform",
    "random_internal_pool_urbg", "random_internal_randen", "random_internal_randen_hwaes",
    "random_internal_randen_hwaes_impl", "random_internal_randen_slow", "random_internal_seed_material",
    "random_seed_gen_exception", "random_seed_sequences", "raw_hash_set", "raw_logging_internal", "spinlock_wait",
    "stacktrace", "status", "statusor", "str_format_internal", "strerror", "string_view", "strings",
    "strings_internal", "symbolize", "synchronization", "throw_delegate", "time", "time_zone",
]

def _system_libraries_impl(repository_ctx):
    folders = [repository_ctx.path(folder) for folder in ["/usr/lib64", "/usr/lib"]]
    folders += [folder for folder in repository_ctx.path("/usr/lib").readdir() if folder.basename.endswith("-linux-gnu")]
    found = [
        name
        for name in _ABSL
        if [folder for folder in folders if folder.get_child("libabsl_%s.so" % name).exists]
    ]
    if not found:
        fail("Abseil's libraries are missing: tools/setup installs them (libabsl-dev)")
    repository_ctx.file("BUILD", "")
    repository_ctx.file("found.bzl", "ABSL = %r\n" % found)

system_libraries = repository_rule(
    implementation = _system_libraries_impl,
    local = True,
)
