// Arbitrary text as a .spec file for the P4 loader: the parser and the checks after it must not read outside
// the text, and every error must be one line of printable text.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

extern "C" {
#include "spec/spec.h"
#include "spec/verify.h"
}

namespace {

void check(bool holds) {
    if (!holds) {
        std::abort();
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const int descriptor = ::memfd_create("fuzz", MFD_CLOEXEC);
    check(descriptor >= 0);
    check(::write(descriptor, data, size) == static_cast<ssize_t>(size));
    const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
    spec program{};
    fault reported{};
    int status = p4_spec_read(&program, path.c_str(), &reported);
    if (status == 0) {
        verify_limits limits{};
        status = p4_verify(&program, &limits, &reported);
    }
    const std::string_view text = reported.text;
    check((status == 0) == text.empty());
    check(text.find_first_not_of(" !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`"
                                 "abcdefghijklmnopqrstuvwxyz{|}~") == std::string_view::npos);
    p4_spec_free(&program);
    ::close(descriptor);
    return 0;
}
