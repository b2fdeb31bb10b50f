// Arbitrary packets for acapella-monitor: it must not read outside a packet, must count each packet once, and
// the counts of flows must add up to those of the port. IPv4 packets with TCP or UDP must have the same
// identity as in kappa. The first byte selects the settings; each packet is preceded by its length, the
// number of bytes that the capture truncated, and the time since the previous packet.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "kappa/trial/identity.hpp"

extern "C" {
#include "fuzz_monitor_counts.h"
}

namespace {

constexpr std::size_t kHead = 4;

void check(bool holds) {
    if (!holds) {
        std::abort();
    }
}

// Compares identities of IPv4 packets with TCP or UDP, for which both dissectors find the same headers.
void compare_identities(const acapella::Record& record, const monitor_fuzz_identity& found) {
    acapella::PacketSpan network;
    if (!found.is_valid || !acapella::kappa::find_network_quickly(record, network)) return;
    acapella::kappa::Identifier identifier({});
    const auto identifying = identifier.find(record);
    const auto identity = identifier.hash(identifying.captured);
    check(identity.high == found.high && identity.low == found.low);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    check(monitor_fuzz_begin(data[0]) == 0);
    std::uint64_t packets = 0;
    for (std::size_t at = 1; size - at > kHead;) {
        const std::size_t left = size - at - kHead;
        const std::size_t kept = data[at] < left ? data[at] : left;
        // In separate memory, so that the sanitizer detects every read outside of it.
        const std::unique_ptr<std::uint8_t[]> packet(new std::uint8_t[kept]);
        std::memcpy(packet.get(), data + at + kHead, kept);
        acapella::Record record;
        record.wire_len = static_cast<std::uint32_t>(kept + data[at + 1]);
        record.link_type = 1;
        record.bytes = std::as_bytes(std::span(packet.get(), kept));
        const auto gap_ns =
            std::int64_t{static_cast<std::int8_t>(data[at + 2])} * (std::int64_t{1} << data[at + 3] % 56);
        compare_identities(record, monitor_fuzz_packet(packet.get(), static_cast<std::uint32_t>(kept),
                                                       record.wire_len, gap_ns));
        ++packets;
        at += kHead + kept;
    }
    check(monitor_fuzz_end(packets) == 0);
    return 0;
}
