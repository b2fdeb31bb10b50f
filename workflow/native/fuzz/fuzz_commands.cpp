// Arbitrary bytes as standard input of acapella-dpdk-replay: the result must not depend on how read() splits
// the input, and each line must result in a command within its documented limits or in a one-line error.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

extern "C" {
#include "control/command.h"
}

namespace {

void check(bool holds) {
    if (!holds) {
        std::abort();
    }
}

// Returns the result of parsing a line: an error, or a command with its values.
std::string parsed(char* line, bool too_long) {
    if (too_long) return "too long";
    const std::string text = line;
    command found{};
    fault reported{};
    const int status = command_parse(&found, line, &reported);
    check((status != 0) == (reported.text[0] != 0));
    check(std::strchr(reported.text, '\n') == nullptr);
    if (status != 0) return reported.text;
    check(found.from_ns >= 0 && found.until_ns >= 0 && found.at_ns >= 0 && found.window_ns >= 0);
    check(found.until_ns == 0 || found.until_ns > found.from_ns);
    check(found.kind != COMMAND_RUN || (found.loops > 0 && found.speed_ppm > 0));
    check(found.kind != COMMAND_ROLLING || found.window_ns > 0);
    const bool has_path =
        found.kind == COMMAND_LOAD || found.kind == COMMAND_SAVE || found.kind == COMMAND_DEPARTURES;
    check(has_path == (found.path != nullptr));
    check((found.kind == COMMAND_ANSWER) == (found.hex != nullptr));
    if (found.hex != nullptr) {
        const std::string hex = found.hex;
        check(hex.size() % 2 == 0 && hex.size() >= 28 && hex.size() <= 3028 && found.port <= 7);
        check(hex.find_first_not_of("0123456789abcdef") == std::string::npos);
    }
    if (has_path) check(*found.path != 0 && text.ends_with(found.path));
    return text;
}

// Reads `size` bytes from a file that grows by at most `piece` bytes at a time.
std::vector<std::string> lines_of(const std::uint8_t* data, std::size_t size, std::size_t piece) {
    static command_lines lines;
    lines = command_lines{};
    std::vector<std::string> found;
    const int descriptor = ::memfd_create("fuzz", MFD_CLOEXEC);
    check(descriptor >= 0);
    off_t at = 0;
    for (std::size_t written = 0;;) {
        const std::size_t part = size - written < piece ? size - written : piece;
        check(::pwrite(descriptor, data + written, part, static_cast<off_t>(written)) ==
              static_cast<ssize_t>(part));
        written += part;
        check(::lseek(descriptor, at, SEEK_SET) == at);
        const int status = command_read(&lines, descriptor);
        check(status >= 0);
        at = ::lseek(descriptor, 0, SEEK_CUR);
        bool too_long = false;
        for (char* line = nullptr; (line = command_next(&lines, &too_long)) != nullptr;) {
            found.push_back(parsed(line, too_long));
        }
        if (status == 0 && written == size) break;
    }
    ::close(descriptor);
    return found;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto at_once = lines_of(data, size, COMMAND_LINE_MAX);
    const std::size_t piece = size / 32 + (size > 0 ? data[0] % 64 : 0) + 1;
    check(at_once == lines_of(data, size, piece));
    return 0;
}
