// Arbitrary bytes as a frame to be anonymized: nothing outside the frame may be read. The result must not be
// longer than the frame, must dissect to the same headers up to its end, with the pseudonyms of the same
// addresses and tunnel identifiers, and must be accepted by the leak search.
//
// The first byte selects the link type, the second byte enables the vendors and the blanking of MAC
// addresses, and the next two bytes are the difference between wire length and captured length. From 0xf0 on,
// the first byte selects a header whose options have types and lengths from the following bytes. Values with
// a length that no RFC allows are filled with markers, of which no run may be kept.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string>
#include <vector>

#include "anonymize/frame.hpp"
#include "anonymize/leaks/leak_fields.hpp"
#include "dissect/dispatch.hpp"
#include "dissect/vendors.hpp"
#include "frame/tokens.hpp"

namespace {

using namespace acapella;
using anonymize::FrameAnonymizer;
using anonymize::MacPolicy;

constexpr std::uint16_t kLinkTypes[] = {1, 113, 276, 0, 108, 101, 228, 229, 147};
constexpr std::array<std::byte, anonymize::kKey> kKey{std::byte{1}, std::byte{2}};

void check(bool holds) {
    if (!holds) std::abort();
}

// Returns a vendor list as dense as the real one, so that few permutations are tried for each address.
Vendors dense_vendors() {
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
    static const Vendors vendors = dense_vendors();
    return &vendors;
}

FrameAnonymizer& anonymizer_of(bool vendors, bool blank) {
    static FrameAnonymizer plain(kKey, MacPolicy::replace, nullptr);
    static FrameAnonymizer with_vendors(kKey, MacPolicy::replace, known_vendors());
    static FrameAnonymizer with_blanks(kKey, MacPolicy::blank, nullptr);
    if (blank) return with_blanks;
    return vendors ? with_vendors : plain;
}

// Checks the addresses of the innermost IP header, if it was kept.
void check_addresses(const Record& frame, const Dissection& before, const Record& kept,
                     const Dissection& after) {
    if (after.ip_version == 0 || before.ip_version != after.ip_version) return;
    const auto network_offset = [](const Record& record, const Dissection& found) {
        return found.network.bytes.data() - record.bytes.data();
    };
    if (network_offset(frame, before) != network_offset(kept, after)) return;
    static const anonymize::CryptoPan pan{anonymize::Key(kKey)};
    const auto first4 = [](const auto& address) {
        anonymize::Ipv4 result;
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

// Checks the tunnels whose headers were kept.
void check_tunnels(const Dissection& before, const Dissection& after) {
    static anonymize::TunnelMap map{anonymize::Key(kKey)};
    check(after.tunnel_count <= before.tunnel_count);
    for (std::size_t i = 0; i < after.tunnel_count; ++i) {
        Tunnel expected = before.tunnels[i];
        expected.id = map.map(expected.type, expected.id);
        check(after.tunnels[i] == expected);
    }
}

// The form of a pseudowire depends on bytes that look like vendors, even inside an address. There, a
// pseudonym may look like a different form.
bool has_pseudowire(const Dissection& found) {
    const auto end = found.tokens.begin() + found.token_count;
    return std::find(found.tokens.begin(), end, Token::pwethheuristic) != end;
}

// The last token may differ: if a frame ends after an ethertype, only the ethertype identifies the payload.
void check_tokens(const Dissection& before, const Dissection& after) {
    const std::ptrdiff_t known = std::max<int>(after.token_count, 1) - 1;
    check(known <= before.token_count);
    check(std::equal(after.tokens.begin(), after.tokens.begin() + known, before.tokens.begin()));
}

// The leak search, which parses headers separately, must find nothing if no payload was kept.
void check_search(const Record& frame, const Record& kept, const Vendors* vendors) {
    static anonymize::HeaderFields fields;
    static Trace trace;
    Dissection found;
    fields.clear();
    dissect(kept, found, vendors, Depth::as_tshark, &trace);
    for (std::size_t i = 0; i < trace.count; ++i) fields.read(kept, trace.steps[i]);
    for (const anonymize::Range& range : fields.blank)
        for (std::size_t i = range.begin; i < range.end; ++i)
            check(kept.bytes[i] == std::byte{0} || kept.bytes[i] != frame.bytes[i]);
}

constexpr std::uint8_t kMarker = 0xa5;
constexpr std::size_t kMarkers = 8;  // in a row; pseudonyms may contain a few

using ByteVector = std::vector<std::uint8_t>;

enum class Planted : std::uint8_t { tcp, ipv4, ipv6, sctp, neighbor };

// Returns true if an RFC specifies this length for options of this type. Written independently of
// lengths.hpp. Unknown types are never kept. Types that contain only addresses are not listed, because the
// addresses are replaced.
bool is_valid_length(Planted planted, unsigned type, std::size_t length) {
    switch (planted) {
        case Planted::tcp:
            return (type == 2 && length == 4) || (type == 3 && length == 3) || (type == 8 && length == 10) ||
                   (type == 5 && (length == 10 || length == 18 || length == 26 || length == 34));
        case Planted::ipv4:
            return (type == 148 && length == 4) || (type == 68 && length % 4 == 0);
        case Planted::ipv6:
            return (type == 4 && length == 3) || (type == 5 && length == 4) || (type == 0xc2 && length == 6);
        case Planted::sctp:
            return (type <= 2 && length >= 20) || ((type == 7 || type == 12 || type == 13) && length == 8) ||
                   (type == 0 && length >= 16) || (type == 64 && length >= 20) ||
                   ((type == 0x80 || type == 0xc1) && length >= 8) ||
                   (type == 0xc0 && length >= 8 && length % 4 == 0);
        case Planted::neighbor:
            return (type == 5 && length == 8) || (type == 3 && length == 32) ||
                   (type == 24 && length <= 24) || (type == 25 && length % 16 == 8 && length > 8);
    }
    return false;
}

// Creates consecutive options, each with a type and a length from two bytes of the input. The markers in SACK
// are also its counts, which therefore never match its length.
ByteVector planted_options(Planted planted, const std::uint8_t* data, std::size_t size, std::size_t room) {
    ByteVector options;
    const std::size_t head = planted == Planted::sctp ? 4 : 2;
    for (; size >= 2 && options.size() + head <= room; data += 2, size -= 2) {
        const std::size_t unit = planted == Planted::neighbor ? 8 : 1;
        const std::size_t max_length =
            std::min<std::size_t>(room - options.size(), unit == 8 ? 255 * 8 : 255);
        const std::size_t length = std::max(head, data[1] * unit);
        if (length > max_length || length % unit != 0) break;
        const std::size_t begin = options.size();
        const bool is_valid = is_valid_length(planted, data[0], length);
        options.resize(begin + length, is_valid ? std::uint8_t{0} : kMarker);
        options[begin] = data[0];
        options[begin + 1] = static_cast<std::uint8_t>(planted == Planted::ipv6 ? length - 2 : length / unit);
        if (planted == Planted::sctp) {
            options[begin + 1] = 0;
            options[begin + 2] = 0;
            options[begin + 3] = static_cast<std::uint8_t>(length);
            options.resize((options.size() + 3) & ~std::size_t{3}, 0);
        }
    }
    const std::size_t multiple = planted == Planted::ipv6 ? 8 : 4;
    const std::size_t header_size = planted == Planted::ipv6 ? 2 : 0;
    while ((options.size() + header_size) % multiple != 0) options.push_back(0);
    return options;
}

ByteVector in_ipv4(std::uint8_t protocol, const ByteVector& options, const ByteVector& payload) {
    const std::size_t header = 20 + options.size();
    const std::size_t total = header + payload.size();
    ByteVector packet(12, 0);
    packet.insert(packet.end(), {8,
                                 0,
                                 static_cast<std::uint8_t>(0x40 + header / 4),
                                 0,
                                 static_cast<std::uint8_t>(total >> 8),
                                 static_cast<std::uint8_t>(total),
                                 0,
                                 0,
                                 0,
                                 0,
                                 64,
                                 protocol,
                                 0,
                                 0,
                                 10,
                                 0,
                                 0,
                                 1,
                                 10,
                                 0,
                                 0,
                                 2});
    packet.insert(packet.end(), options.begin(), options.end());
    packet.insert(packet.end(), payload.begin(), payload.end());
    return packet;
}

ByteVector in_ipv6(std::uint8_t next, const ByteVector& payload) {
    ByteVector packet(12, 0);
    packet.insert(packet.end(), {0x86, 0xdd, 0x60, 0, 0, 0, static_cast<std::uint8_t>(payload.size() >> 8),
                                 static_cast<std::uint8_t>(payload.size()), next, 64});
    packet.resize(packet.size() + 32, 0xfe);
    packet.insert(packet.end(), payload.begin(), payload.end());
    return packet;
}

ByteVector planted_frame(Planted planted, const std::uint8_t* data, std::size_t size) {
    const bool small = planted == Planted::tcp || planted == Planted::ipv4;
    const ByteVector options = planted_options(planted, data, size, small ? 40 : 1000);
    ByteVector header;
    switch (planted) {
        case Planted::tcp:
            header = {
                0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, static_cast<std::uint8_t>((5 + options.size() / 4) << 4),
                2, 0, 0, 0, 0, 0, 0};
            break;
        case Planted::ipv4:
            return in_ipv4(17, options, ByteVector(8, 0));
        case Planted::ipv6:
            header = {59, static_cast<std::uint8_t>((options.size() + 2) / 8 - 1)};
            break;
        case Planted::sctp:
            header.resize(12, 0);
            break;
        case Planted::neighbor:
            header = {133, 0, 0, 0, 0, 0, 0, 0};
            break;
    }
    header.insert(header.end(), options.begin(), options.end());
    if (planted == Planted::ipv6) return in_ipv6(0, header);
    if (planted == Planted::neighbor) return in_ipv6(58, header);
    return in_ipv4(planted == Planted::tcp ? 6 : 132, {}, header);
}

void check_planted(Planted planted, const std::uint8_t* data, std::size_t size) {
    const ByteVector bytes = planted_frame(planted, data, size);
    Record frame;
    frame.frame = 1;
    frame.link_type = 1;
    frame.bytes = {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()};
    frame.wire_len = static_cast<std::uint32_t>(bytes.size());
    const Bytes kept = anonymizer_of(false, false).anonymize(frame);
    std::size_t run = 0;
    for (const std::byte byte : kept) {
        run = byte == std::byte{kMarker} ? run + 1 : 0;
        check(run < kMarkers);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    constexpr std::uint8_t kPlanted = 0xf0;
    if (size < 4) return 0;
    if (data[0] >= kPlanted) {
        check_planted(static_cast<Planted>((data[0] - kPlanted) % 5), data + 1, size - 1);
        return 0;
    }
    // A separate copy, so that the sanitizer detects reads beyond the frame.
    const std::vector<std::uint8_t> bytes(data + 4, data + size);
    Record frame;
    frame.frame = 1;
    frame.link_type = kLinkTypes[data[0] % std::size(kLinkTypes)];
    frame.bytes = {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()};
    frame.wire_len = static_cast<std::uint32_t>(bytes.size() + data[2] * 256U + data[3]);
    const bool vendors = data[1] % 2 != 0;
    const bool blank = !vendors && data[1] / 2 % 2 != 0;
    FrameAnonymizer& anonymizer = anonymizer_of(vendors, blank);
    const Bytes view = anonymizer.anonymize(frame);
    const std::vector<std::byte> kept(view.begin(), view.end());
    check(kept.size() <= frame.bytes.size());
    check(std::ranges::equal(anonymizer.anonymize(frame), kept));

    Record kept_frame = frame;
    kept_frame.bytes = kept;
    Dissection before;
    Dissection after;
    dissect(frame, before, vendors ? known_vendors() : nullptr);
    dissect(kept_frame, after, vendors ? known_vendors() : nullptr);
    if (has_pseudowire(before)) return 0;
    check_tokens(before, after);
    check_addresses(frame, before, kept_frame, after);
    check_tunnels(before, after);
    check_search(frame, kept_frame, vendors ? known_vendors() : nullptr);
    return 0;
}
