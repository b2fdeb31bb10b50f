// acapella-send INTERFACE FILE.pcap SECONDS [FRAMES_PER_SECOND]: sends the frames of a pcap file repeatedly,
// as fast as possible or at a fixed rate. Prints {"sent": frames, "seconds": s}.
//
// For benchmarks on virtual interfaces. Sends 64 frames per system call (packet(7)) without a queueing
// discipline, which is faster than one call per frame. The counters of the interface show the accepted
// frames.
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "packet_socket.hpp"

namespace {

constexpr std::size_t kBatch = 64;
constexpr std::uint64_t kMaxBacklog =
    256;  // frames; if more are overdue, the oldest are skipped, so that bursts stay short

using Clock = std::chrono::steady_clock;

// Determines the number of frames that are due now, at most a batch.
class Pace {
  public:
    explicit Pace(double rate) : rate_(rate) {}

    std::size_t due(double elapsed_s) {
        if (rate_ <= 0) return kBatch;
        const auto total_due = static_cast<std::uint64_t>(elapsed_s * rate_);
        const std::uint64_t due = total_due - passed_;
        if (due > kMaxBacklog) passed_ = total_due - kMaxBacklog;
        const std::size_t batch = std::min<std::uint64_t>(total_due - passed_, kBatch);
        passed_ += batch;
        return batch;
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
            pieces[i] = {frames[next].data.data(), frames[next].data.size()};
        }
        for (std::size_t done = 0; done < due;) {
            const int accepted = sendmmsg(out, messages.data() + done, static_cast<unsigned>(due - done), 0);
            if (accepted < 0 && errno != ENOBUFS && errno != EINTR && errno != EAGAIN) fail(argv[1]);
            done += accepted > 0 ? static_cast<std::size_t>(accepted) : errno == EINTR ? 0 : 1;
            sent += accepted > 0 ? static_cast<std::uint64_t>(accepted) : 0;
        }
    }
    std::printf("{\"sent\": %llu, \"seconds\": %.6f}\n", static_cast<unsigned long long>(sent), elapsed_s);
    close(out);
    return 0;
}
