// Captures in memory for tests. Integers are appended in a selected byte order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "frame/record.hpp"
#include "input/capture_reader.hpp"
#include "input/input_error.hpp"

namespace acapella::test {

class Writer {
  public:
    explicit Writer(bool big_endian = false) : big_(big_endian) {}

    template <typename Integer>
    Writer& put(Integer value) {
        for (std::size_t i = 0; i < sizeof value; ++i) {
            const std::size_t shift = 8 * (big_ ? sizeof value - 1 - i : i);
            bytes.push_back(static_cast<std::byte>((static_cast<std::uint64_t>(value) >> shift) & 0xffU));
        }
        return *this;
    }
    Writer& u8(unsigned value) { return put(static_cast<std::uint8_t>(value)); }
    Writer& u16(unsigned value) { return put(static_cast<std::uint16_t>(value)); }
    Writer& u32(std::uint64_t value) { return put(static_cast<std::uint32_t>(value)); }
    Writer& i64(std::int64_t value) { return put(value); }
    Writer& fill(std::size_t count, unsigned value) {
        bytes.insert(bytes.end(), count, static_cast<std::byte>(value));
        return *this;
    }
    Writer& add(const std::vector<std::byte>& added) {
        bytes.insert(bytes.end(), added.begin(), added.end());
        return *this;
    }

    std::vector<std::byte> bytes;

  private:
    bool big_;
};

struct PcapHeader {
    std::uint32_t magic = 0xa1b2c3d4;
    std::uint32_t network = 1;
    unsigned major = 2;
    unsigned minor = 4;
    std::uint32_t snaplen = 262144;
    bool big_endian = false;
};

inline std::vector<std::byte> pcap(const PcapHeader& header = {}) {
    Writer out(header.big_endian);
    out.u32(header.magic)
        .u16(header.major)
        .u16(header.minor)
        .u32(0)
        .u32(0)
        .u32(header.snaplen)
        .u32(header.network);
    return out.bytes;
}

// Returns a record of `captured` bytes, all of them 0xab.
inline std::vector<std::byte> pcap_record(std::uint64_t seconds, std::uint64_t fraction,
                                          std::uint64_t captured, std::uint64_t wire,
                                          bool big_endian = false) {
    Writer out(big_endian);
    out.u32(seconds).u32(fraction).u32(captured).u32(wire).fill(captured, 0xab);
    return out.bytes;
}

inline std::vector<std::byte> block(std::uint32_t type, const std::vector<std::byte>& body,
                                    bool big_endian = false) {
    Writer out(big_endian);
    const std::size_t padding = (4 - body.size() % 4) % 4;
    const std::size_t size = body.size() + padding + 12;
    out.u32(type).u32(size).add(body).fill(padding, 0).u32(size);
    return out.bytes;
}

inline std::vector<std::byte> section(bool big_endian = false, unsigned major = 1, unsigned minor = 0) {
    Writer out(big_endian);
    out.u32(0x1a2b3c4d).u16(major).u16(minor).i64(-1);
    return block(0x0a0d0d0a, out.bytes, big_endian);
}

inline std::vector<std::byte> interface(unsigned link_type = 1, std::uint32_t snaplen = 0,
                                        const std::vector<std::byte>& options = {}, bool big_endian = false) {
    Writer out(big_endian);
    out.u16(link_type).u16(0).u32(snaplen).add(options);
    return block(1, out.bytes, big_endian);
}

inline std::vector<std::byte> option(unsigned code, const std::vector<std::byte>& value,
                                     bool big_endian = false) {
    Writer out(big_endian);
    out.u16(code).u16(static_cast<unsigned>(value.size())).add(value).fill((4 - value.size() % 4) % 4, 0);
    return out.bytes;
}

inline std::vector<std::byte> packet(std::uint64_t ts, std::uint32_t captured = 60, std::uint32_t wire = 60,
                                     std::uint32_t interface_id = 0,
                                     const std::vector<std::byte>& options = {}, bool big_endian = false) {
    Writer out(big_endian);
    out.u32(interface_id).u32(ts >> 32U).u32(ts).u32(captured).u32(wire).fill(captured, 0xab);
    out.fill((4 - captured % 4) % 4, 0).add(options);
    return block(6, out.bytes, big_endian);
}

inline std::vector<std::byte> join(std::initializer_list<std::vector<std::byte>> parts) {
    Writer out;
    for (const auto& part : parts) {
        out.add(part);
    }
    return out.bytes;
}

struct Frame {
    std::uint64_t number;
    std::int64_t ts_ns;
    std::uint32_t wire_len;
    std::size_t cap_len;
    std::uint16_t link_type;
    std::uint32_t interface_id;
    std::size_t pseudo_header;

    bool operator==(const Frame&) const = default;
};

struct Reading {
    std::vector<Frame> frames;
    input::FileInfo info;
};

inline Reading read_source(input::ByteSource& source) {
    const auto reader = input::open_capture(source);
    Reading reading;
    Record record;
    while (reader->next(record)) {
        reading.frames.push_back({record.frame, record.ts_ns, record.wire_len, record.bytes.size(),
                                  record.link_type, record.interface_id, record.pseudo_header.size()});
    }
    reading.info = reader->info();
    return reading;
}

// Reads all frames; throws InputError like the reader.
inline Reading read_all(const std::vector<std::byte>& file) {
    const auto source = input::ByteSource::from_memory(file, "memory");
    return read_source(*source);
}

// Returns the kind of the InputError thrown by read_all(); "" if none was thrown.
inline std::string refusal(const std::vector<std::byte>& file) {
    try {
        read_all(file);
    } catch (const input::InputError& error) {
        return error.kind();
    }
    return "";
}

}  // namespace acapella::test
