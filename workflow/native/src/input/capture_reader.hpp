// Reads the frames of a pcap or pcapng file one by one, and the metadata of the file.
#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "frame/record.hpp"
#include "input/byte_source.hpp"

namespace acapella::input {

// An interface of a pcapng file, or the one described by a pcap file header.
struct Interface {
    std::uint16_t link_type = 0;
    std::uint32_t snaplen = 0;  // 0: unlimited or unknown
    // The unit of timestamps is 10^-tsresol s, or 2^-tsresol s if tsresol_binary.
    std::uint8_t tsresol = 6;
    bool tsresol_binary = false;
    std::int64_t tsoffset_s = 0;
    // length in bytes of the FCS at the end of each frame, which is not part of a Record
    std::uint8_t fcs_len = 0;
};

// Maximum number of interfaces in all sections of a file. mergecap and dumpcap write a few for each input; a
// million interfaces use 32 MiB.
inline constexpr std::size_t kMaxInterfaces = std::size_t{1} << 20U;

// How reading a file ended. All values except `clean` are faults; the frames before the fault are complete.
enum class FileEnd : std::uint8_t {
    clean,
    cut_header,           // inside a record header
    cut_record,           // inside a record or block
    bad_caplen,           // a capture length that is impossible for the link type
    bad_pseudo_header,    // a record too short for its pseudo-header
    bad_block,            // a pcapng block with inconsistent lengths, options or interface
    bad_version,          // a pcapng section of an unknown version
    too_many_interfaces,  // a pcapng file with more than kMaxInterfaces
    cut_compressed,       // the compressed data is truncated
    bad_compression,      // the compressed data is damaged, or its checksum is wrong
    decompression_limit,  // the decompressed data exceeds DecompressionLimits
    trailing_bytes,       // uncompressed bytes after the compressed data, which is complete
};

// Returns the name of the enumerator, which is stable.
const char* name_of(FileEnd end);

struct FileInfo {
    std::string
        format;  // pcap, pcap_ns, pcap_modified, pcap_patched, pcap_nokia, pcap_aix, pcap_ixia, pcapng
    std::string compression;                // none, gzip, zstd, lz4
    std::vector<std::uint16_t> link_types;  // of the interfaces, without duplicates, in file order
    std::uint32_t snaplen = 0;              // the largest of the interfaces; 0: unknown
    std::uint8_t fcs_len = 0;               // the largest of the interfaces
    std::int64_t ts_unit_ns = 0;            // the finest unit of the file's timestamps, at least 1
    std::uint64_t records = 0;              // complete frames so far
    std::uint64_t longer_than_snaplen = 0;  // frames captured longer than the snap length of their interface
    std::uint64_t untimed = 0;  // frames in pcapng simple packet blocks, which have no timestamp: ts_ns is 0
    // Frames of a pcap whose fraction field is one second or more; it is added to the seconds.
    std::uint64_t bad_fractions = 0;
    std::uint64_t ts_out_of_range = 0;  // timestamps outside 1677 to 2262; ts_ns is clamped to this range
    // Blocks that tshark counts as frames: custom blocks, systemd journal entries, sysdig events.
    std::uint64_t blocks_not_frames = 0;
    FileEnd end = FileEnd::clean;  // valid after next() has returned false
    std::string end_detail;        // one line; empty at a clean end
    std::uint64_t end_offset = 0;  // where reading stopped, in the decompressed file
    // Number of bytes from there to the end of the decompressed data, if reading stopped at damage.
    std::uint64_t unread_bytes = 0;
};

// Receives the blocks that describe the frames after them.
class BlockObserver {
  public:
    BlockObserver() = default;
    BlockObserver(const BlockObserver&) = delete;
    BlockObserver& operator=(const BlockObserver&) = delete;
    virtual ~BlockObserver() = default;

    // `bytes`: the section header (`first`) or an interface description of a pcapng file, or the file header
    // of a pcap, valid until the method returns. `offset`: its offset in the decompressed file.
    virtual void on_block(std::uint64_t offset, Bytes bytes, bool first) = 0;
};

class CaptureReader {
  public:
    explicit CaptureReader(ByteSource& source, BlockObserver* observer = nullptr)
        : source_(source), observer_(observer) {}
    CaptureReader(const CaptureReader&) = delete;
    CaptureReader& operator=(const CaptureReader&) = delete;
    virtual ~CaptureReader() = default;

    // Reads the next frame. Returns false at the end of the file or at a fault (see info()), and in all later
    // calls. Throws InputError (read_error) if the source cannot be read.
    virtual bool next(Record& record) = 0;

    // The last frame as stored in the file.
    struct Stored {
        Bytes record;            // the whole record or block
        Bytes frame;             // the frame with its pseudo-header and FCS
        std::uint32_t wire_len;  // including pseudo-header and FCS
    };
    // Valid after next() has returned true, until the next call of next().
    [[nodiscard]] virtual Stored stored() = 0;

    [[nodiscard]] const FileInfo& info() const { return info_; }
    // Indexed by Record::interface_id.
    [[nodiscard]] const std::vector<Interface>& interfaces() const { return interfaces_; }

  protected:
    void add_interface(const Interface& interface);
    // Only the first call has an effect. After damage before the end of the data, it reads to the end, to
    // verify the checksum and count the bytes. Views are then invalid.
    bool stop(FileEnd end, std::string detail);
    void read_to_end();
    // Stops because the data ended after `available` of the `required` bytes of a record.
    bool stop_truncated(FileEnd end, std::size_t available, std::size_t required);
    bool stop_bad_caplen(std::uint64_t caplen, std::uint16_t link_type);
    // Splits a record into pseudo-header and frame without FCS, and sets the lengths. Returns false if the
    // record is too short.
    bool set_frame(Record& record, Bytes bytes, std::uint32_t wire_len, const Interface& interface);

    ByteSource& source_;
    BlockObserver* observer_;
    FileInfo info_;
    Bytes frame_;  // the last frame with its pseudo-header and FCS; its wire length is in the next member
    std::uint32_t frame_wire_len_ = 0;
    std::vector<Interface> interfaces_;
    std::bitset<1U << 16U> link_types_seen_;
    // True while the first block is read: if it is bad, the file is rejected without reading it to its end.
    bool opening_ = false;
};

// Returns the reader for the format indicated by the first bytes. Throws InputError. A file without frames is
// valid. The observer must outlive the reader.
std::unique_ptr<CaptureReader> open_capture(ByteSource& source, BlockObserver* observer = nullptr);

}  // namespace acapella::input
