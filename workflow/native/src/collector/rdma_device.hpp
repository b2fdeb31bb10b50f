// Reports that an RDMA NIC writes to memory which it registered: unreliable connected queue pairs, by
// libibverbs.
//
// The NIC checks queue pair, key, bounds, sequence numbers and ICRC itself, and drops what is wrong without a
// word; no completion tells of a WRITE, so the rings are looked at. This was compiled and never run against a
// device.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collector/polled_ring.hpp"

namespace acapella::collector {

// What a sender needs to write to a ring.
struct RdmaRing {
    std::uint32_t number = 0;
    std::uint32_t key = 0;
    std::uint64_t base = 0;
};

class RdmaDevice {
  public:
    // peer: IPv4 address that reports come from, as text. Raises input::InputError (cannot_open): no such
    // device, no active RoCEv2 port, built without libibverbs.
    RdmaDevice(const std::string& name, const std::string& peer, Format format);
    RdmaDevice(const RdmaDevice&) = delete;
    RdmaDevice& operator=(const RdmaDevice&) = delete;
    ~RdmaDevice();

    // A ring of so many reports, ready to be written to; the first packet has sequence number psn. Raises
    // input::InputError where the device refuses.
    RdmaRing add(std::uint32_t slots, std::uint32_t psn);
    // What was written is read no more.
    void remove(std::uint32_t number);

    // Calls take(bytes, count) for the reports that have come; returns how many.
    template <typename Take>
    std::uint32_t poll(const Take& take) {
        std::uint32_t count = 0;
        for (const auto& ring : rings_) count += ring->reports.poll(take);
        return count;
    }

  private:
    struct Port;
    struct Ring {
        PolledRing reports;
        std::uint32_t number;
        std::shared_ptr<void> resources;  // in the order of their making
    };

    std::string name_;
    Format format_;
    std::shared_ptr<Port> port_;
    std::vector<std::unique_ptr<Ring>> rings_;
};

}  // namespace acapella::collector
