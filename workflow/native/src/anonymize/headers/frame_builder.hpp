// A frame on its way out. Nothing is in it but what somebody who knows a header put there.
#pragma once

#include <cstdint>
#include <vector>

#include "anonymize/pseudonyms/address_map.hpp"
#include "dissect/trace.hpp"
#include "frame/cursor.hpp"
#include "frame/record.hpp"

namespace acapella::anonymize {

enum class ChecksumKind : std::uint8_t {
    plain,   // over the header and what follows
    pseudo,  // and IP's pseudo-header (RFC 9293 3.1, RFC 8200 8.1)
    udp,     // as pseudo; 0 says that there is none
    crc32c,
};

// A checksum that is made when all is kept that it is of.
struct PendingChecksum {
    ChecksumKind kind = ChecksumKind::plain;
    std::uint8_t proto = 0;       // of a pseudo-header
    std::uint8_t ip_version = 0;  // 0: what the pseudo-header has to be is not known
    std::uint32_t ip_begin = 0;
    std::uint32_t begin = 0;
    std::uint32_t length = 0;  // octets from `begin` that it is of
    std::uint32_t whole = 0;   // the length that a pseudo-header tells
    std::uint32_t field = 0;   // offset of the checksum from the frame's start
};

class FrameBuilder {
  public:
    explicit FrameBuilder(Pseudonyms& pseudonyms) : pseudonyms_(pseudonyms) {}

    // Starts anew; the frame's bytes have to stay until finish().
    void start(Bytes frame, std::uint32_t wire_len);

    [[nodiscard]] std::size_t size() const { return out_.size(); }
    [[nodiscard]] Bytes bytes() const { return out_; }
    // The frame from `offset` on, as it came.
    [[nodiscard]] Cursor original(std::size_t offset) const;

    // The draft grows to `end`, by the frame's own octets or by zeros; never beyond what was captured.
    void keep_to(std::size_t end);
    void blank_to(std::size_t end);
    // These change what is in the draft; where not all of it is in the draft and was captured they do
    // nothing.
    void copy_original(std::size_t offset, std::size_t count);
    void fill(std::size_t offset, std::size_t count, std::uint8_t value);
    void put16(std::size_t offset, std::uint16_t value);
    void put32_little(std::size_t offset, std::uint32_t value);
    template <typename Address>
    void map(std::size_t offset);
    // The first octets of an IPv6 address whose others are zeros.
    void map_prefix(std::size_t offset, std::size_t octets);
    // An IPv4 address with every bit inverted.
    void map_inverted(std::size_t offset);
    // The identifier of a tunnel in the last bits of a field of 1 to 4 octets.
    void map_tunnel(std::size_t offset, std::size_t octets, TunnelType type);

    // The checksum at `sum.field` is zero until finish().
    void add_checksum(const PendingChecksum& sum);
    // Computes the checksums of what is whole, inner ones first; the others stay zero.
    void finish();

    // The nearest IP header, and whether it says all that a pseudo-header is made of.
    std::uint8_t ip_version = 0;
    std::uint32_t ip_begin = 0;
    bool addresses_known = false;
    bool fragment = false;  // of which no checksum above IP can be made

  private:
    [[nodiscard]] bool inside(std::size_t offset, std::size_t count) const;
    void put(std::size_t offset, Bytes bytes);
    void write_checksum(const PendingChecksum& sum);

    Pseudonyms& pseudonyms_;
    Bytes frame_;
    std::uint32_t wire_len_ = 0;
    std::vector<std::byte> out_;
    std::vector<PendingChecksum> checksums_;
};

// One header of the draft, by its own offsets.
class Header {
  public:
    Header(FrameBuilder& out, const Step& found) : builder(out), step(found), at(cursor_of(out, found)) {}

    FrameBuilder& builder;
    const Step& step;
    const Cursor at;  // what was captured of it and behind it, within what outer length fields leave

    // What the dissector took; 0 where it took nothing, or was not content.
    [[nodiscard]] std::size_t length() const { return step.end - step.begin; }
    [[nodiscard]] std::size_t kept() const { return builder.size() - step.begin; }

    void keep(std::size_t count) { builder.keep_to(step.begin + count); }
    void blank(std::size_t count) { builder.blank_to(step.begin + count); }
    void copy_original(std::size_t offset, std::size_t count) {
        builder.copy_original(step.begin + offset, count);
    }
    void fill(std::size_t offset, std::size_t count, std::uint8_t value) {
        builder.fill(step.begin + offset, count, value);
    }
    void put16(std::size_t offset, std::uint16_t value) { builder.put16(step.begin + offset, value); }
    void ipv4(std::size_t offset) { builder.map<Ipv4>(step.begin + offset); }
    void ipv6(std::size_t offset) { builder.map<Ipv6>(step.begin + offset); }
    void mac(std::size_t offset) { builder.map<Mac>(step.begin + offset); }
    void tunnel(std::size_t offset, std::size_t octets, TunnelType type) {
        builder.map_tunnel(step.begin + offset, octets, type);
    }
    // Owes a checksum over all that the nearest length field leaves, or over `length` octets.
    void add_checksum(ChecksumKind kind, std::size_t field, std::uint8_t proto = 0) {
        add_checksum(kind, field, proto, at.reported());
    }
    void add_checksum(ChecksumKind kind, std::size_t field, std::uint8_t proto, std::size_t length);

  private:
    static Cursor cursor_of(const FrameBuilder& builder, const Step& step) {
        Cursor cursor = builder.original(step.begin);
        cursor.limit(step.reported);
        return cursor;
    }
};

}  // namespace acapella::anonymize
