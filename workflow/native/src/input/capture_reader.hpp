// Frames of a pcap or pcapng file, one by one, and what the file says of itself.
#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "frame/record.hpp"
#include "input/byte_source.hpp"

namespace acapella::input {

// An interface of a pcapng file, or the one that a pcap file's header describes.
struct Interface {
    std::uint16_t link_type = 0;
    std::uint32_t snaplen = 0;  // 0: no limit, or not known
    // A time stamp counts units of 10^-tsresol s, or 2^-tsresol s.
    std::uint8_t tsresol = 6;
    bool tsresol_binary = false;
    std::int64_t tsoffset_s = 0;
    std::uint8_t fcs_len = 0;  // octets of FCS that the file says end each frame; no part of any length here
};

// Interfaces that a file may describe, in all its sections. mergecap and dumpcap write some for each input; a
// million take 32 MiB.
inline constexpr std::size_t kMaxInterfaces = std::size_t{1} << 20U;

// How a file ended. Each kind but `clean` names a fault; the frames before it are whole.
enum class FileEnd : std::uint8_t {
    clean,
    cut_header,           // in the middle of a record's header
    cut_record,           // in the middle of a record or block
    bad_caplen,           // a capture length that no frame of this link type has
    bad_pseudo_header,    // a record too short for what stands before the frame
    bad_block,            // a pcapng block whose lengths, options or interface contradict each other
    bad_version,          // a pcapng section of a version that nobody knows
    too_many_interfaces,  // a pcapng file describes more than kMaxInterfaces
    cut_compressed,       // the compressed data is cut
    bad_compression,      // the compressed data is damaged, or a checksum says that what came out of it is
    decompression_limit,  // the decompressed data exceeds DecompressionLimits
    trailing_bytes,       // bytes that are not compressed behind the compressed data, which is whole
};

// The stable name, as the members are spelt.
const char* name_of(FileEnd end);

struct FileInfo {
    std::string
        format;  // pcap, pcap_ns, pcap_modified, pcap_patched, pcap_nokia, pcap_aix, pcap_ixia, pcapng
    std::string compression;                // none, gzip, zstd, lz4
    std::vector<std::uint16_t> link_types;  // of the interfaces, each once, in the order of the file
    std::uint32_t snaplen = 0;              // the largest of the interfaces; 0: not known
    std::uint8_t fcs_len = 0;               // the largest of the interfaces
    std::int64_t ts_unit_ns = 0;            // the finest unit that the file's format can tell, at least 1
    std::uint64_t records = 0;              // whole frames so far
    std::uint64_t longer_than_snaplen = 0;  // frames captured longer than their interface's snap length
    std::uint64_t untimed = 0;  // frames of pcapng's simple packet blocks, which have no time: ts_ns is 0
    // Frames of a pcap whose fraction of a second is a second or more; it is added to the seconds as it
    // stands.
    std::uint64_t bad_fractions = 0;
    std::uint64_t ts_out_of_range = 0;  // stamps outside 1677 to 2262, which ts_ns holds as its nearest value
    // Blocks that tshark numbers as frames though they are none: custom blocks, systemd journal entries,
    // sysdig events.
    std::uint64_t blocks_not_frames = 0;
    FileEnd end = FileEnd::clean;  // meaningful after next() has returned false
    std::string end_detail;        // one line; empty at a clean end
    std::uint64_t end_offset = 0;  // of the record that could not be read, in the decompressed file
    // Bytes from there to the end of the decompressed data, where damage and not that end stopped the
    // reading.
    std::uint64_t unread_bytes = 0;
};

class CaptureReader {
  public:
    explicit CaptureReader(ByteSource& source) : source_(source) {}
    CaptureReader(const CaptureReader&) = delete;
    CaptureReader& operator=(const CaptureReader&) = delete;
    virtual ~CaptureReader() = default;

    // The next frame; false at the end of the file or at a fault, see facts(), and ever after. Does not
    // throw.
    virtual bool next(Record& record) = 0;

    [[nodiscard]] const FileInfo& info() const { return info_; }
    // By Record::interface_id.
    [[nodiscard]] const std::vector<Interface>& interfaces() const { return interfaces_; }

  protected:
    void add_interface(const Interface& interface);
    // The first call counts. At damage before the end of the data, reads on to that end, so that a checksum
    // there is seen and the bytes are counted: no view is valid any more.
    bool stop(FileEnd end, std::string detail);
    void read_to_end();
    // The data ended while `whole` bytes of a record were wanted and `there` were left.
    bool stop_truncated(FileEnd end, std::size_t there, std::size_t whole);
    bool stop_bad_caplen(std::uint64_t caplen, std::uint16_t link_type);
    // Splits a record's bytes into pseudo-header and frame without FCS, and sets the lengths. False where
    // they are too few.
    bool set_frame(Record& record, Bytes bytes, std::uint32_t wire_len, const Interface& interface);

    ByteSource& source_;
    FileInfo info_;
    std::vector<Interface> interfaces_;
    std::bitset<1U << 16U> link_types_seen_;
    bool opening_ = false;  // nothing is read to its end for a file that will be refused
};

// Chooses the reader by the first bytes. Raises InputError; a file of a header and no frame is no error.
std::unique_ptr<CaptureReader> open_capture(ByteSource& source);

}  // namespace acapella::input
