// Prints the frames that the readers find in captures, for a comparison with tshark. For each argument, it
// prints a line "# NAME", the frames as "ts_ns wire_len cap_len link_type", and a last line "# END end
// frames" or "# ERROR kind".
#include <unistd.h>

#include <cstdio>
#include <string>

#include "input/capture_reader.hpp"
#include "input/input_error.hpp"

namespace {

using acapella::Record;
using acapella::input::ByteSource;
using acapella::input::InputError;

void dump(const std::string& name) {
    std::printf("# %s\n", name.c_str());
    try {
        const auto source =
            name == "-" ? ByteSource::from_descriptor(STDIN_FILENO, name) : ByteSource::open(name);
        const auto reader = open_capture(*source);
        Record record;
        while (reader->next(record)) {
            std::printf("%lld %u %zu %u\n", static_cast<long long>(record.ts_ns), record.wire_len,
                        record.bytes.size(), record.link_type);
        }
        const auto& info = reader->info();
        std::printf("# END %s %llu\n", name_of(info.end), static_cast<unsigned long long>(info.records));
    } catch (const InputError& error) {
        std::printf("# ERROR %s\n", error.kind().c_str());
    }
}

}  // namespace

int main(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
        dump(argv[i]);
    }
    return std::fflush(stdout) == 0 ? 0 : 1;
}
