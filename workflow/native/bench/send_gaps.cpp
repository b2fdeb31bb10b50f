// acapella-send-gaps INTERFACE FILE.pcap STAMPS: sends the frames of a pcap file once, with their original
// gaps. It is a simple loop that polls the system clock and sends the frames that are due with sendmmsg(2),
// as a baseline for comparing replayers. Writes the time before each frame's system call to STAMPS, in ns
// since 1970, as 64-bit numbers in this machine's byte order.
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <array>

#include "packet_socket.hpp"

namespace {

constexpr std::size_t kBatch = 64;
constexpr std::int64_t kLeadNs = 10'000'000;  // from the start of send_all() to the first frame

std::int64_t now_ns() {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

std::vector<std::int64_t> send_all(int out, std::vector<TimedFrame>& frames) {
    std::array<iovec, kBatch> pieces{};
    std::array<mmsghdr, kBatch> messages{};
    for (std::size_t i = 0; i < kBatch; ++i) {
        messages[i].msg_hdr.msg_iov = &pieces[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    std::vector<std::int64_t> stamps(frames.size());
    const std::int64_t offset = now_ns() + kLeadNs - frames.front().ns;
    for (std::size_t next = 0; next < frames.size();) {
        const std::int64_t now = now_ns();
        std::size_t due = 0;
        for (; due < kBatch && next + due < frames.size() && frames[next + due].ns + offset <= now; ++due) {
            pieces[due] = {frames[next + due].data.data(), frames[next + due].data.size()};
            stamps[next + due] = now;
        }
        if (due == 0) continue;
        const int took = sendmmsg(out, messages.data(), static_cast<unsigned>(due), 0);
        if (took < 0 && errno != ENOBUFS && errno != EINTR && errno != EAGAIN) fail("sendmmsg");
        next += took > 0 ? static_cast<std::size_t>(took) : 0;
    }
    return stamps;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 4) {
        std::fputs("usage: acapella-send-gaps INTERFACE FILE.pcap STAMPS\n", stderr);
        return 2;
    }
    auto frames = frames_of(argv[2]);
    const int out = socket_on(argv[1]);
    const auto stamps = send_all(out, frames);
    std::ofstream file(argv[3], std::ios::binary);
    file.write(reinterpret_cast<const char*>(stamps.data()),
               static_cast<std::streamsize>(stamps.size() * sizeof stamps[0]));
    file.close();
    if (!file) fail(argv[3]);
    close(out);
    return 0;
}
