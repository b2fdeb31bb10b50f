// acapella-trials: generates two trials to measure the comparison. The trials depend only on the arguments.
//   acapella-trials write PACKETS ORDER A.pcap B.pcap   write captures of 200-byte frames
//   acapella-trials compare PACKETS ORDER               compare without files; print CPU seconds as JSON
//   acapella-trials files A.pcap B.pcap                 read and compare files; print CPU seconds as JSON
// ORDER is the order of the packets of A in B: ordered, reversed, shuffled, or bursts (every two adjacent
// bursts of 64 packets are swapped).
#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "kappa/compare.hpp"

namespace {

using namespace acapella::kappa;

constexpr std::int64_t kStart = 1'700'000'000'000'000'000;
constexpr std::int64_t kGap = 284;  // frames of 1,400 bytes at 40 Gbit/s, as in the CHOIR paper

// SplitMix64 (Steele, Lea, Flood 2014): a pseudorandom permutation of the 64-bit numbers.
std::uint64_t scattered(std::uint64_t value) {
    value += 0x9e3779b97f4a7c15;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
    value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
    return value ^ (value >> 31);
}

// The packet of A at each position of B.
class Arrangement {
  public:
    Arrangement(std::string_view name, std::uint32_t packets) : kind_(name), packets_(packets) {
        if (kind_ != "shuffled") return;
        shuffled_.resize(packets);
        std::iota(shuffled_.begin(), shuffled_.end(), 0U);
        for (std::uint32_t i = packets; i > 1; --i) std::swap(shuffled_[i - 1], shuffled_[scattered(i) % i]);
    }

    [[nodiscard]] bool known() const {
        return kind_ == "ordered" || kind_ == "reversed" || kind_ == "shuffled" || kind_ == "bursts";
    }
    [[nodiscard]] std::uint32_t at(std::uint32_t position) const {
        if (kind_ == "reversed") return packets_ - 1 - position;
        if (kind_ == "shuffled") return shuffled_[position];
        constexpr std::uint32_t kBurst = 64;
        if (kind_ == "bursts" && (position | (2 * kBurst - 1)) < packets_) return position ^ kBurst;
        return position;
    }

  private:
    std::string kind_;
    std::uint32_t packets_;
    std::vector<std::uint32_t> shuffled_;
};

// The clock of the second trial has a jitter of less than 40 ns and never goes backwards.
std::int64_t stamp(std::uint32_t position, bool second) {
    const std::int64_t jitter_ns = second ? static_cast<std::int64_t>(scattered(position) % 40) : 0;
    return kStart + std::int64_t{position} * kGap + jitter_ns;
}

// CPU time of the kernel for this process, which is mostly spent clearing memory.
double system_s() {
    struct rusage usage {};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_stime.tv_sec) + static_cast<double>(usage.ru_stime.tv_usec) / 1e6;
}

double since_s(std::clock_t start) { return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC; }

int files(const char* a, const char* b) {
    const std::clock_t start = std::clock();
    Request request{{{{a, ""}}, {{b, ""}}}, {{0, 1}}, {}, {{10}, 50, {}}, std::uint64_t{1} << 34, "/tmp"};
    const Compared compared = compare_files(request);
    std::printf("{\"common\": %llu, \"files_s\": %.6f}\n",
                static_cast<unsigned long long>(compared.report.pairs[0].common), since_s(start));
    return 0;
}

int compare(std::uint32_t packets, const Arrangement& order) {
    MemoryBudget budget(~std::uint64_t{0} >> 1, "/tmp");
    Trial a(budget);
    Trial b(budget);
    for (std::uint32_t i = 0; i < packets; ++i) {
        a.identities.push({scattered(i), scattered(~std::uint64_t{i})});
        a.timestamps.push(stamp(i, false));
    }
    for (std::uint32_t i = 0; i < packets; ++i) {
        const std::uint64_t packet = order.at(i);
        b.identities.push({scattered(packet), scattered(~packet)});
        b.timestamps.push(stamp(i, true));
    }
    const std::clock_t start = std::clock();
    const double system_start_s = system_s();
    finish_trial(a, budget);
    finish_trial(b, budget);
    const PairResult result = compare_pair(a, b, {{10}, 50, {}}, ~std::uint64_t{0}, "/tmp");
    const double used_s = since_s(start);
    const double kernel_s = system_s() - system_start_s;
    struct rusage usage {};
    getrusage(RUSAGE_SELF, &usage);
    std::printf(
        "{\"packets\": %u, \"common\": %llu, \"moved\": %llu, \"compare_s\": %.6f, \"kernel_s\": %.6f, "
        "\"peak_mib\": %ld}\n",
        packets, static_cast<unsigned long long>(result.common),
        static_cast<unsigned long long>(result.moves.count), used_s, kernel_s, usage.ru_maxrss / 1024);
    return result.common == packets ? 0 : 1;
}

// Writes an Ethernet frame of 200 bytes with IPv4 and UDP. The payload identifies the packet.
void put_frame(std::uint32_t packet, std::byte* at) {
    constexpr std::size_t kFrame = 200;
    constexpr unsigned char kHeaders[] = {2,    0, 0,  0,   0, 1, 2,    0,    0,    0,    0, 2,   8,  0,
                                          0x45, 0, 0,  186, 0, 0, 0,    0,    64,   17,   0, 0,   10, 0,
                                          0,    1, 10, 0,   0, 2, 0x9c, 0x40, 0xc3, 0x50, 0, 166, 0,  0};
    std::memset(at, 0x55, kFrame);
    std::memcpy(at, kHeaders, sizeof kHeaders);
    at[18] = static_cast<std::byte>(packet >> 8);
    at[19] = static_cast<std::byte>(packet);
    for (std::size_t word = 0; word < 8; ++word) {
        const std::uint64_t value = scattered(std::uint64_t{packet} * 8 + word);
        std::memcpy(at + 48 + word * sizeof value, &value, sizeof value);
    }
}

bool write(const char* path, std::uint32_t packets, const Arrangement& order, bool second) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path, "wb"), std::fclose);
    if (!file) return false;
    const std::uint32_t header[] = {0xa1b23c4d, 0x00040002, 0, 0, 65535, 1};
    bool written = std::fwrite(header, sizeof header, 1, file.get()) == 1;
    std::byte record[216];
    for (std::uint32_t i = 0; i < packets && written; ++i) {
        const std::int64_t ts_ns = stamp(i, second);
        const std::uint32_t head[] = {static_cast<std::uint32_t>(ts_ns / 1'000'000'000),
                                      static_cast<std::uint32_t>(ts_ns % 1'000'000'000), 200, 200};
        std::memcpy(record, head, sizeof head);
        put_frame(second ? order.at(i) : i, record + sizeof head);
        written = std::fwrite(record, sizeof record, 1, file.get()) == 1;
    }
    return written && std::fflush(file.get()) == 0;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string_view mode = argc > 1 ? argv[1] : "";
    if (mode == "files" && argc == 4) return files(argv[2], argv[3]);
    std::uint32_t packets = 0;
    if (argc > 3) std::from_chars(argv[2], argv[2] + std::strlen(argv[2]), packets);
    const Arrangement order(argc > 3 ? argv[3] : "", packets);
    if (packets == 0 || !order.known() ||
        !((mode == "compare" && argc == 4) || (mode == "write" && argc == 6))) {
        std::fputs(
            "usage: acapella-trials compare PACKETS ORDER | files A.pcap B.pcap | write PACKETS ORDER A.pcap "
            "B.pcap\n",
            stderr);
        return 2;
    }
    if (mode == "compare") return compare(packets, order);
    if (write(argv[4], packets, order, false) && write(argv[5], packets, order, true)) return 0;
    std::perror("acapella-trials: error");
    return 2;
}
