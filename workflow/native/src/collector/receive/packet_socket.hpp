// Receives frames of a network interface: an AF_PACKET socket with a ring of blocks shared with the kernel
// (TPACKET_V3, packet(7)).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "frame/record.hpp"

namespace acapella::collector {

class PacketSocket {
  public:
    // Starts receiving in promiscuous mode. Throws input::InputError (cannot_open) if the interface does not
    // exist, the process lacks CAP_NET_RAW, or the ring cannot be allocated.
    explicit PacketSocket(const std::string& interface);
    PacketSocket(const PacketSocket&) = delete;
    PacketSocket& operator=(const PacketSocket&) = delete;
    ~PacketSocket();

    // Calls visit(frame, wire_len) for every frame of the next block. Returns false if no block became ready
    // within wait_ms; a block that contains a frame becomes ready after kBlockMs at the latest. Throws
    // input::InputError (read_error) if the interface was removed or has failed, but not if it is down,
    // because it may come up again.
    template <typename Visit>
    bool receive(int wait_ms, const Visit& visit) {
        const std::byte* block = next_block(wait_ms);
        if (block == nullptr) return false;
        const std::byte* at = first_frame(block);
        for (std::uint32_t left = frames_in(block); left > 0; --left) {
            std::uint32_t wire_len = 0;
            const Bytes frame = frame_at(at, wire_len);
            visit(frame, wire_len);
            at = next_frame(at);
        }
        release_block();
        return true;
    }

    // Returns the number of frames dropped by the kernel since the last call because the ring was full.
    std::uint64_t take_dropped();

  private:
    static constexpr std::uint32_t kBlockBytes = 1U << 20;
    static constexpr std::uint32_t kBlocks = 64;
    static constexpr std::uint32_t kBlockMs = 10;  // timeout after which a partly filled block is delivered

    void set_up(unsigned index);
    void wait(int wait_ms);
    const std::byte* next_block(int wait_ms);
    void release_block();
    static std::uint32_t frames_in(const std::byte* block);
    static const std::byte* first_frame(const std::byte* block);
    static const std::byte* next_frame(const std::byte* frame);
    static Bytes frame_at(const std::byte* frame, std::uint32_t& wire_len);
    void release();

    std::string interface_;
    int descriptor_ = -1;
    std::byte* ring_ = nullptr;
    std::uint32_t block_ = 0;
};

}  // namespace acapella::collector
