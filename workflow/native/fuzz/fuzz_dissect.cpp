// Arbitrary bytes as a frame of any link type: the dissectors must not read outside the frame, must
// terminate, and their results must satisfy the documented properties. The first byte selects the link type,
// the second byte enables the vendors, and the next two bytes are the difference between wire length and
// captured length.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <string>
#include <vector>

#include "dissect/dispatch.hpp"
#include "dissect/vendors.hpp"
#include "frame/tokens.hpp"
#include "frame/tunnels.hpp"

namespace {

using namespace acapella;

constexpr std::uint16_t kLinkTypes[] = {1, 113, 276, 0, 108, 101, 228, 229, 147};

void check(bool holds) {
    if (!holds) std::abort();
}

Vendors seed_vendors() {
    Vendors vendors;
    vendors.add("00:00:00\tXerox\n00:1B:21\tIntelCor\n");
    return vendors;
}

void check_properties(const Record& record, const Dissection& found) {
    check(found.token_count <= kMaxTokens && found.vlan_count <= kMaxVlans &&
          found.label_count <= kMaxLabels && found.tunnel_count <= kMaxTunnels);
    for (std::size_t i = 0; i < found.tunnel_count; ++i) {
        check(!text_of(found.tunnels[i].type).empty());
        check(found.tunnels[i].position > 0 && found.tunnels[i].position <= last_position(found));
    }
    std::size_t labels = 0;
    for (std::size_t i = 0; i < found.token_count; ++i) {
        check(found.tokens[i] < Token::count_);
        if (found.tokens[i] == Token::mpls) labels += found.repeats[i];
    }
    // A packet quoted in an ICMP error has tokens but no keys.
    check(found.label_count <= labels || labels >= 255);
    const std::byte* begin = record.bytes.data();
    const std::byte* end = begin + record.bytes.size();
    check(found.payload.empty() ||
          (found.payload.data() >= begin && found.payload.data() + found.payload.size() <= end));
    check(!found.has_tcp || found.has_ports);
    check(!found.has_ports || found.ip_version != 0);
    check(protocols_of(found).size() < 2048 && stack_of(found).size() < 65536);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 4) return 0;
    // A separate copy, so that the sanitizer detects reads beyond the frame.
    const std::vector<std::uint8_t> frame(data + 4, data + size);
    Record record;
    record.frame = 1;
    record.link_type = kLinkTypes[data[0] % std::size(kLinkTypes)];
    record.bytes = {reinterpret_cast<const std::byte*>(frame.data()), frame.size()};
    record.wire_len = static_cast<std::uint32_t>(frame.size() + data[2] * 256U + data[3]);
    static const Vendors known = seed_vendors();
    const Vendors* vendors = data[1] % 2 != 0 ? &known : nullptr;
    Dissection first;
    dissect(record, first, vendors);
    check_properties(record, first);
    // The dissectors keep no state: dissecting the same frame into a used Dissection gives the same result.
    const std::string protocols = protocols_of(first);
    const bool sure = first.sure;
    dissect(record, first, vendors);
    check(protocols_of(first) == protocols && first.sure == sure);
    return 0;
}
