// Several captures as one, in order of time: what was taken by several queues, or in several files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "input/capture_reader.hpp"

namespace acapella::input {

// What cannot be merged, or the output's fault. what() is one line.
class MergeError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

class Merge {
  public:
    // Opens all captures. Raises InputError where one is none.
    explicit Merge(const std::vector<std::string>& paths, const DecompressionLimits& limits = {});
    Merge(const Merge&) = delete;
    Merge& operator=(const Merge&) = delete;

    // Writes all frames to `descriptor`, which stays the caller's, as a pcap with nanosecond stamps. Of each
    // capture the next frame is the next in its file: of these the earliest goes first, of equally early ones
    // that of the capture named first. A frame with an implausible time follows the one before it in its
    // file, and its time becomes kNoPlausibleNs, which is as implausible. Raises MergeError where frames have
    // no time or several link types, or where the descriptor does not take them.
    void write(int descriptor);

    // The capture, by its place among the paths, of each of the next `count` frames that write() wrote, in
    // order; fewer where it wrote fewer. May be called in another thread while write() runs: a frame is
    // noted before it is written, so whoever has read it gets an answer.
    [[nodiscard]] std::vector<std::uint32_t> take_captures(std::size_t count);

    // What each file said of itself, in order; whole once write() has returned.
    [[nodiscard]] std::vector<FileInfo> info() const;

  private:
    struct Capture {
        std::string path;
        std::unique_ptr<ByteSource> source;
        std::unique_ptr<CaptureReader> reader;
        Record record;              // the next one, where there is one
        std::int64_t place_ns = 0;  // the latest plausible time up to that one
    };
    bool next(Capture& capture) const;
    [[nodiscard]] std::uint16_t link_type() const;

    std::vector<Capture> captures_;
    std::mutex mutex_;
    std::deque<std::uint32_t> written_;  // captures of frames that were written and not taken yet
};

}  // namespace acapella::input
