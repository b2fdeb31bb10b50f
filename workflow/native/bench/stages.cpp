// acapella-stages CAPTURE: prints, as JSON, the CPU seconds of several passes over a capture. Each pass
// performs a larger part of the work of a digest.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <string>

#include "digest/native_digest.hpp"
#include "dissect/dispatch.hpp"
#include "input/capture_reader.hpp"
#include "input/input_error.hpp"

namespace {

using acapella::Dissection;
using acapella::NativeDigest;
using acapella::Record;
using acapella::input::ByteSource;

// Measures CPU time, which is less affected by other programs than wall time; the faster of two runs.
template <typename Pass>
double seconds(Pass pass) {
    double fastest = 0;
    for (int run = 0; run < 2; ++run) {
        const std::clock_t start = std::clock();
        pass();
        const double used = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
        fastest = run == 0 ? used : std::min(fastest, used);
    }
    return fastest;
}

// Uses results, so that the compiler does not remove a pass.
volatile std::uint64_t sink = 0;

void read(const std::string& path) {
    const auto source = ByteSource::open(path);
    const auto reader = open_capture(*source);
    Record record;
    std::uint64_t bytes = 0;
    while (reader->next(record)) bytes += record.bytes.size();
    sink = bytes;
}

void dissect(const std::string& path) {
    const auto source = ByteSource::open(path);
    const auto reader = open_capture(*source);
    Record record;
    Dissection dissection;
    std::uint64_t tokens = 0;
    while (reader->next(record)) {
        acapella::dissect(record, dissection);
        tokens += dissection.token_count;
    }
    sink = tokens;
}

void digest(const std::string& path) {
    constexpr std::size_t kBatchRows = std::size_t{1} << 18;  // twice the rows of acapella digest
    NativeDigest digest(path, {}, kBatchRows);
    std::uint64_t batches = 0;
    while (const auto batch = digest.next_frames()) ++batches;
    sink = batches + digest.builder().flow_table().size();
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fputs("usage: acapella-stages CAPTURE\n", stderr);
        return 2;
    }
    try {
        const std::string path = argv[1];
        const double read_s = seconds([&] { read(path); });
        const double dissect_s = seconds([&] { dissect(path); });
        const double digest_s = seconds([&] { digest(path); });
        std::printf("{\"read_s\": %.6f, \"dissect_s\": %.6f, \"digest_s\": %.6f}\n", read_s, dissect_s,
                    digest_s);
    } catch (const acapella::input::InputError& error) {
        std::fprintf(stderr, "acapella-stages: error: %s\n", error.what());
        return 2;
    }
    return 0;
}
