// Arbitrary bytes as two trials: the reader, identities of every kind, and the comparison must not read
// outside the trials, must satisfy their documented properties, and must give the same result in memory and
// with files.
//
// Input: one byte of options, two bytes with the length of the first capture (little-endian), the first
// capture, and the second capture.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "input/input_error.hpp"
#include "kappa/compare.hpp"

namespace {

using namespace acapella::kappa;

void check(bool holds) {
    if (!holds) std::abort();
}

// A capture in memory, with a path that can be opened.
class MemoryFile {
  public:
    explicit MemoryFile(acapella::Bytes bytes) : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
        check(descriptor_ >= 0);
        check(::write(descriptor_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    }
    MemoryFile(const MemoryFile&) = delete;
    MemoryFile& operator=(const MemoryFile&) = delete;
    ~MemoryFile() { ::close(descriptor_); }

    [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

  private:
    int descriptor_;
};

Request request_of(std::uint8_t choices, const std::string& a, const std::string& b) {
    Request request;
    request.files = {{{a, "1"}}, {{b, "2"}}};
    if (choices & 0x80) request.files[1].push_back({a, "1"});  // B has two files
    request.pairs = {{0, 1}};
    IdentityRule& rule = request.options.identity;
    rule.kind = static_cast<IdentityKind>(choices & 3);
    rule.l4_checksum = (choices & 4) == 0;
    rule.tag = static_cast<TagLayout>((choices >> 3) % 3);
    if (rule.kind == IdentityKind::regions)
        rule.regions = {{12, 2}, {20, std::uint32_t{1} << (choices >> 3 & 7)}};
    if (choices & 0x40) {
        request.options.selection.relative = true;
        request.options.selection.from_ns = 1;
    }
    // A few compressed bytes may expand to gigabytes.
    request.options.progress = [](std::uint64_t bytes) {
        if (bytes > std::uint64_t{8} << 20) throw TrialError("too long");
    };
    request.pair = {{0, 10}, 7, {}};
    request.directory = "/dev/shm";
    return request;
}

bool equal(const Deltas& x, const Deltas& y) {
    return x.sum == y.sum && x.signed_sum == y.signed_sum && x.median == y.median && x.p99 == y.p99 &&
           x.largest == y.largest;
}

bool equal(const MoveSums& x, const MoveSums& y) {
    return x.count == y.count && x.sum == y.sum && x.sum_of_squares == y.sum_of_squares &&
           x.absolute_sum == y.absolute_sum && x.smallest == y.smallest && x.largest == y.largest;
}

bool equal(const Window& x, const Window& y) {
    return x.packets_a == y.packets_a && x.packets_b == y.packets_b && x.common == y.common &&
           x.latency_sum == y.latency_sum && x.gap_sum == y.gap_sum && x.gaps_a_sum == y.gaps_a_sum &&
           x.gaps_b_sum == y.gaps_b_sum && x.order_distance == y.order_distance &&
           x.order_moved == y.order_moved && x.inversions == y.inversions;
}

void check_equal(const PairResult& x, const PairResult& y) {
    check(x.packets_a == y.packets_a && x.packets_b == y.packets_b && x.common == y.common);
    check(x.ambiguous.a == y.ambiguous.a && x.ambiguous.b == y.ambiguous.b);
    check(x.first_common_a == y.first_common_a && x.first_common_b == y.first_common_b);
    check(x.duration_a_ns == y.duration_a_ns && x.duration_b_ns == y.duration_b_ns);
    check(equal(x.latency, y.latency) && equal(x.gap, y.gap));
    check(equal(x.latency_offset_removed, y.latency_offset_removed) && x.offset_ns == y.offset_ns);
    check(x.latency_within == y.latency_within && x.gap_within == y.gap_within);
    check(x.order_distance == y.order_distance && x.inversions == y.inversions);
    check(x.spacing.pairs == y.spacing.pairs && x.spacing.reversed == y.spacing.reversed);
    check(equal(x.moves, y.moves) && equal(x.bursts, y.bursts) && x.longest_burst == y.longest_burst);
    check(x.windows.size() == y.windows.size());
    for (std::size_t i = 0; i < x.windows.size(); ++i) check(equal(x.windows[i], y.windows[i]));
}

// Checks the properties of every pair of trials.
void check_properties(const PairResult& pair, std::size_t windows) {
    check(pair.common <= pair.packets_a && pair.common <= pair.packets_b);
    check(pair.moves.count < pair.common || pair.common == 0);
    check(pair.bursts.count <= pair.moves.count);
    check(pair.ambiguous.a <= pair.packets_a && pair.ambiguous.b <= pair.packets_b);
    check(pair.latency.median <= pair.latency.p99 && pair.latency.p99 <= pair.latency.largest);
    check(pair.windows.size() <= windows);
    std::uint64_t common = 0;
    Sum128 gap_sum = 0;
    for (const Window& window : pair.windows) {
        common += window.common;
        gap_sum += window.gap_sum;
    }
    check(pair.windows.empty() || (common == pair.common && gap_sum == pair.gap.sum));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    constexpr std::size_t kHead = 3;
    if (size < kHead) return 0;
    const acapella::Bytes captures(reinterpret_cast<const std::byte*>(data) + kHead, size - kHead);
    const std::size_t first = std::min<std::size_t>(data[1] | data[2] << 8, captures.size());
    const MemoryFile a(captures.first(first));
    const MemoryFile b(captures.subspan(first));
    try {
        Request request = request_of(data[0], a.path(), b.path());
        request.memory_bytes = std::uint64_t{1} << 40;
        const Compared in_memory = compare_files(request);
        request.memory_bytes = 4096;  // less than any column needs
        const Compared through_files = compare_files(request);
        check_properties(in_memory.report.pairs[0], 7);
        check_equal(in_memory.report.pairs[0], through_files.report.pairs[0]);
        check(in_memory.report.ambiguous == through_files.report.ambiguous);
        check(in_memory.trials->identity_bytes == through_files.trials->identity_bytes);
    } catch (const acapella::input::InputError& error) {
        check(!error.kind().empty());
    } catch (const TrialError&) {
    }
    return 0;
}
