// acapella-send INTERFACE FILE.pcap SECONDS [FRAMES_PER_SECOND]: sends the frames of a pcap file repeatedly,
// as fast as possible or at a fixed rate. Prints {"sent": frames, "seconds": s}.
//
// For benchmarks on virtual interfaces. Sends 64 frames per system call (packet(7)) without a queueing
// discipline, which is faster than one call per frame. Counters of the interface show what it accepted.
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

constexpr std::size_t kBatch = 64;
constexpr std::size_t kFileHead = 24, kRecordHead = 16;
constexpr std::uint64_t kBehind =
    256;  // frames; frames overdue for longer are skipped, so that there are no bursts

using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const std::string& what) {
    std::fprintf(stderr, "acapella-send: error: %s%s%s\n", what.c_str(), errno ? ": " : "",
                 errno ? std::strerror(errno) : "");
    std::exit(1);
}

// Little-endian pcap with complete frames.
std::vector<std::vector<char>> frames_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> raw(std::istreambuf_iterator<char>(file), {});
    std::vector<std::vector<char>> frames;
    for (std::size_t at = kFileHead; at + kRecordHead <= raw.size();) {
        std::uint32_t size = 0;
        std::memcpy(&size, raw.data() + at + 8, sizeof size);
        at += kRecordHead;
        if (size > raw.size() - at) break;
        frames.emplace_back(raw.begin() + static_cast<std::ptrdiff_t>(at),
                            raw.begin() + static_cast<std::ptrdiff_t>(at + size));
        at += size;
    }
    if (frames.empty()) fail(path + ": no frames");
    return frames;
}

int socket_on(const char* interface) {
    const int out = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    sockaddr_ll where{};
    where.sll_family = AF_PACKET;
    where.sll_ifindex = static_cast<int>(if_nametoindex(interface));
    const int yes = 1;
    if (out < 0 || where.sll_ifindex == 0 ||
        bind(out, reinterpret_cast<const sockaddr*>(&where), sizeof where) != 0) {
        fail(interface);
    }
    setsockopt(out, SOL_PACKET, PACKET_QDISC_BYPASS, &yes, sizeof yes);  // ignored by old kernels
    return out;
}

// The number of frames due now, at most a batch.
class Pace {
  public:
    explicit Pace(double rate) : rate_(rate) {}

    std::size_t due(double elapsed_s) {
        if (rate_ <= 0) return kBatch;
        const auto all = static_cast<std::uint64_t>(elapsed_s * rate_);
        const std::uint64_t due = all - passed_;
        if (due > kBehind) passed_ = all - kBehind;
        const std::size_t now = std::min<std::uint64_t>(all - passed_, kBatch);
        passed_ += now;
        return now;
    }

  private:
    double rate_;
    std::uint64_t passed_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
    if (argc != 4 && argc != 5) {
        std::fputs("usage: acapella-send INTERFACE FILE.pcap SECONDS [FRAMES_PER_SECOND]\n", stderr);
        return 2;
    }
    auto frames = frames_of(argv[2]);
    const int out = socket_on(argv[1]);
    const double seconds = std::strtod(argv[3], nullptr);
    Pace pace(argc == 5 ? std::strtod(argv[4], nullptr) : 0);
    std::array<iovec, kBatch> pieces{};
    std::array<mmsghdr, kBatch> messages{};
    for (std::size_t i = 0; i < kBatch; ++i) {
        messages[i].msg_hdr.msg_iov = &pieces[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    std::size_t next = 0;
    std::uint64_t sent = 0;
    const auto begin = Clock::now();
    double elapsed_s = 0;
    while ((elapsed_s = std::chrono::duration<double>(Clock::now() - begin).count()) < seconds) {
        const std::size_t due = pace.due(elapsed_s);
        for (std::size_t i = 0; i < due; ++i, next = (next + 1) % frames.size()) {
            pieces[i] = {frames[next].data(), frames[next].size()};
        }
        for (std::size_t done = 0; done < due;) {
            const int took = sendmmsg(out, messages.data() + done, static_cast<unsigned>(due - done), 0);
            if (took < 0 && errno != ENOBUFS && errno != EINTR && errno != EAGAIN) fail(argv[1]);
            done += took > 0 ? static_cast<std::size_t>(took) : errno == EINTR ? 0 : 1;
            sent += took > 0 ? static_cast<std::uint64_t>(took) : 0;
        }
    }
    std::printf("{\"sent\": %llu, \"seconds\": %.6f}\n", static_cast<unsigned long long>(sent), elapsed_s);
    close(out);
    return 0;
}
