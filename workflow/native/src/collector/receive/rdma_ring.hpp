// A ring in memory that an RDMA device writes: registered through libibverbs, behind an unreliable
// connection's queue pair. Where libibverbs was not there at the build, or there is no device, opening one
// says so.
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
    std::string device;  // empty: the first
    std::uint8_t port = 1;
    int gid_index = 0;                   // of our address as RoCEv2 has it
    std::array<std::uint8_t, 4> peer{};  // the sender's IPv4 address
    std::uint32_t peer_queue_pair = 0;
    std::uint32_t initial_psn = 0;
    std::uint32_t slots = 0;
    Format format = Format::tagged;
};

class RdmaRing {
  public:
    // Raises RdmaError.
    static std::unique_ptr<RdmaRing> open(const RdmaConfig& config);
    // Names of this machine's devices; none without libibverbs.
    static std::vector<std::string> devices();

    RdmaRing() = default;
    RdmaRing(const RdmaRing&) = delete;
    RdmaRing& operator=(const RdmaRing&) = delete;
    virtual ~RdmaRing() = default;

    // What the sender has to be told.
    virtual std::uint32_t number() const = 0;
    virtual std::uint32_t key() const = 0;
    virtual std::uint64_t base() const = 0;

    virtual const std::byte* memory() const = 0;
};

}  // namespace acapella::collector
