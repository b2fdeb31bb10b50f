// Any bytes as a frame that is to leave its site: nothing outside it may be read, what is kept must be a part
// of it, and read again must be the same headers as far as they go, with the pseudonyms of the same
// addresses and tunnel identifiers. The first byte chooses the link type, the second whether vendors are
// known and MAC addresses blank, the next two what the frame was longer on the wire.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string>
#include <vector>

#include "anonymise/frame.hpp"
#include "dissect/dispatch.hpp"
#include "dissect/vendors.hpp"
#include "tokens.hpp"

namespace {

using namespace acapella;
using anonymise::FrameAnonymiser;
using anonymise::Macs;

constexpr std::uint16_t kLinkTypes[] = {1, 113, 276, 0, 108, 101, 228, 229, 147};
constexpr std::array<std::byte, anonymise::kKey> kKey{std::byte{1}, std::byte{2}};

void check(bool holds) {
    if (!holds) std::abort();
}

// As dense as the real list, so that as few addresses as there are looked at for each.
Vendors some_vendors() {
    Vendors vendors;
    std::string text;
    for (unsigned i = 0; i < 4096; ++i) {
        std::array<char, 32> line{};
        const int length =
            std::snprintf(line.data(), line.size(), "00:%02X:%02X\tV\n", 16 + i / 256, i % 256);
        text.append(line.data(), static_cast<std::size_t>(length));
    }
    vendors.add(text + "00:00:00\tXerox\n");
    return vendors;
}

const Vendors* known_vendors() {
    static const Vendors vendors = some_vendors();
    return &vendors;
}

FrameAnonymiser& anonymiser_of(bool vendors, bool blank) {
    static FrameAnonymiser plain(kKey, Macs::replace, nullptr);
    static FrameAnonymiser with_vendors(kKey, Macs::replace, known_vendors());
    static FrameAnonymiser with_blanks(kKey, Macs::blank, nullptr);
    if (blank) return with_blanks;
    return vendors ? with_vendors : plain;
}

// Of the addresses of the innermost IP header, where it was kept.
void check_addresses(const Record& frame, const Dissection& before, const Record& kept,
                     const Dissection& after) {
    if (after.ip_version == 0 || before.ip_version != after.ip_version) return;
    const auto same_place = [](const Record& record, const Dissection& found) {
        return found.network.bytes.data() - record.bytes.data();
    };
    if (same_place(frame, before) != same_place(kept, after)) return;
    static const anonymise::CryptoPan pan{anonymise::Key(kKey)};
    const auto first4 = [](const auto& address) {
        anonymise::Ipv4 result;
        std::copy_n(address.begin(), result.size(), result.begin());
        return result;
    };
    if (before.ip_version == 4) {
        check(first4(after.src) == pan.map(first4(before.src)) &&
              first4(after.dst) == pan.map(first4(before.dst)));
    } else {
        check(after.src == pan.map(before.src) && after.dst == pan.map(before.dst));
    }
}

// Of the tunnels whose headers were kept.
void check_tunnels(const Dissection& before, const Dissection& after) {
    static anonymise::TunnelMap map{anonymise::Key(kKey)};
    check(after.tunnel_count <= before.tunnel_count);
    for (std::size_t i = 0; i < after.tunnel_count; ++i) {
        Tunnel expected = before.tunnels[i];
        expected.id = map.map(expected.type, expected.id);
        check(after.tunnels[i] == expected);
    }
}

// Which form a pseudowire has is told by where vendors seem to stand, also in the middle of an address: there
// a pseudonym may look like another form.
bool has_pseudowire(const Dissection& found) {
    const auto end = found.tokens.begin() + found.token_count;
    return std::find(found.tokens.begin(), end, Token::pwethheuristic) != end;
}

// The last token may be another: where a frame ends behind an ethertype, that alone says what was there.
void check_tokens(const Dissection& before, const Dissection& after) {
    const std::ptrdiff_t known = std::max<int>(after.token_count, 1) - 1;
    check(known <= before.token_count);
    check(std::equal(after.tokens.begin(), after.tokens.begin() + known, before.tokens.begin()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 4) return 0;
    // A copy of its own, so that the sanitizer sees the end of the frame.
    const std::vector<std::uint8_t> octets(data + 4, data + size);
    Record frame;
    frame.frame = 1;
    frame.link_type = kLinkTypes[data[0] % std::size(kLinkTypes)];
    frame.bytes = {reinterpret_cast<const std::byte*>(octets.data()), octets.size()};
    frame.wire_len = static_cast<std::uint32_t>(octets.size() + data[2] * 256U + data[3]);
    const bool vendors = data[1] % 2 != 0;
    const bool blank = !vendors && data[1] / 2 % 2 != 0;
    FrameAnonymiser& anonymiser = anonymiser_of(vendors, blank);
    const Bytes view = anonymiser.anonymise(frame);
    const std::vector<std::byte> kept(view.begin(), view.end());
    check(kept.size() <= frame.bytes.size());
    check(std::ranges::equal(anonymiser.anonymise(frame), kept));

    Record again = frame;
    again.bytes = kept;
    Dissection before;
    Dissection after;
    dissect(frame, before, vendors ? known_vendors() : nullptr);
    dissect(again, after, vendors ? known_vendors() : nullptr);
    if (has_pseudowire(before)) return 0;
    check_tokens(before, after);
    check_addresses(frame, before, again, after);
    check_tunnels(before, after);
    return 0;
}
