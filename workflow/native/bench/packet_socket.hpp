// Sends raw frames to an interface, for acapella-send and acapella-send-gaps.
#pragma once

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

constexpr std::size_t kFileHead = 24, kRecordHead = 16;

[[noreturn]] inline void fail(const std::string& what) {
    std::fprintf(stderr, "%s: error: %s%s%s\n", program_invocation_short_name, what.c_str(),
                 errno ? ": " : "", errno ? std::strerror(errno) : "");
    std::exit(1);
}

// A frame of a capture, with its timestamp in ns since 1970.
struct TimedFrame {
    std::int64_t ns = 0;
    std::vector<char> data;
};

// Reads a little-endian pcap with complete frames.
inline std::vector<TimedFrame> frames_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> raw(std::istreambuf_iterator<char>(file), {});
    std::vector<TimedFrame> frames;
    const bool nanoseconds = raw.size() > kFileHead && static_cast<unsigned char>(raw[0]) == 0x4D;
    for (std::size_t at = kFileHead; at + kRecordHead <= raw.size();) {
        std::uint32_t seconds = 0, fraction = 0, size = 0;
        std::memcpy(&seconds, raw.data() + at, sizeof seconds);
        std::memcpy(&fraction, raw.data() + at + 4, sizeof fraction);
        std::memcpy(&size, raw.data() + at + 8, sizeof size);
        at += kRecordHead;
        if (size > raw.size() - at) break;
        const auto first = raw.begin() + static_cast<std::ptrdiff_t>(at);
        frames.push_back({seconds * 1'000'000'000LL + fraction * (nanoseconds ? 1LL : 1000LL),
                          {first, first + static_cast<std::ptrdiff_t>(size)}});
        at += size;
    }
    if (frames.empty()) fail(path + ": no frames");
    return frames;
}

inline int socket_on(const char* interface) {
    const int out = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_ifindex = static_cast<int>(if_nametoindex(interface));
    const int enabled = 1;
    if (out < 0 || address.sll_ifindex == 0 ||
        bind(out, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        fail(interface);
    }
    setsockopt(out, SOL_PACKET, PACKET_QDISC_BYPASS, &enabled, sizeof enabled);  // ignored by old kernels
    return out;
}
