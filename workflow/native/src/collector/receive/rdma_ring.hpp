// A ring in memory written by an RDMA device, registered with libibverbs for a queue pair of an unreliable
// connection.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "collector/report/report.hpp"

namespace acapella::collector {

class RdmaError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

struct RdmaConfig {
    std::string device;  // empty: the first one
    std::uint8_t port = 1;
    int gid_index = 0;                   // of this machine's RoCEv2 address
    std::array<std::uint8_t, 4> peer{};  // IPv4 address of the sender
    std::uint32_t peer_queue_pair = 0;
    std::uint32_t initial_psn = 0;
    std::uint32_t slots = 0;
    Format format = Format::tagged;
};

class RdmaRing {
  public:
    // Throws RdmaError, also if the core was built without libibverbs.
    static std::unique_ptr<RdmaRing> open(const RdmaConfig& config);
    // Returns the names of this machine's RDMA devices; empty without libibverbs.
    static std::vector<std::string> devices();

    RdmaRing() = default;
    RdmaRing(const RdmaRing&) = delete;
    RdmaRing& operator=(const RdmaRing&) = delete;
    virtual ~RdmaRing() = default;

    // Parameters for the sender.
    virtual std::uint32_t number() const = 0;
    virtual std::uint32_t key() const = 0;
    virtual std::uint64_t base() const = 0;

    virtual const std::byte* memory() const = 0;
};

}  // namespace acapella::collector
