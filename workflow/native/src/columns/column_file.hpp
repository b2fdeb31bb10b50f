// Stores record batches in a file, for a machine without Arrow: acapella-digest writes it on the node that
// recorded a capture, and `acapella digest` creates the Parquet files from it
// (workflow/src/acapella/digest/node_digest.py).
//
// A file is kColumnFile, followed by blocks. A block is a kind of 8 characters, a length as uint64, and as
// many bytes, padded with zeros to a multiple of 8. Numbers are little-endian. The payload of a batch is its
// column in this form:
//   name, format    each as a length (uint64) and padded bytes; `format` as in the Arrow C data interface
//   nullable, length, null_count, number of buffers, of children, of dictionaries (0 or 1), each as uint64
//   buffers         each as a length and padded bytes; kNoBuffer instead of the length of a missing buffer
//   children, dictionary    in the same form
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "columns/column.hpp"

namespace acapella {

inline constexpr std::string_view kColumnFile = "acapcol1";
inline constexpr std::uint64_t kNoBuffer = UINT64_MAX;

// Appends a block to `file`. `kind` has 8 characters.
void append_block(std::string& file, std::string_view kind, std::string_view payload);

// Returns the payload of a block with a batch. Throws std::invalid_argument for a format that no table has.
std::string payload_of(const Batch& batch);

}  // namespace acapella
