// A column to be exported through the Arrow C data interface: its type and the addresses of its buffers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "columns/arrow_abi.hpp"

namespace acapella {

struct Column {
    std::string name;
    std::string format;  // Arrow's format string: "L" is uint64, "u" utf8, "+s" struct
    bool nullable = false;
    std::int64_t length = 0;
    std::int64_t null_count = 0;
    std::vector<const void*> buffers;  // validity (may be null), followed by those required by the format
    std::vector<Column> children = {};
    std::unique_ptr<Column> dictionary = nullptr;  // `format` is then the type of the indices
};

// Fill `schema` and `array`; the receiver releases them. `owner` keeps the buffers alive until the array is
// released, which may happen in any thread.
void export_schema(const Column& column, ArrowSchema* schema);
void export_array(const Column& column, std::shared_ptr<const void> owner, ArrowArray* array);

// A record batch: the columns as children of one struct, and the owner of their buffers.
struct Batch {
    Column columns;
    std::shared_ptr<const void> owner;
};

// Concatenated strings with offsets, as required for utf8 columns.
class Strings {
  public:
    void add(std::string_view text) {
        bytes_.append(text);
        offsets_.push_back(static_cast<std::int32_t>(bytes_.size()));
    }
    std::int64_t size() const { return static_cast<std::int64_t>(offsets_.size()) - 1; }
    Column column(std::string name, bool nullable = false, const void* validity = nullptr,
                  std::int64_t null_count = 0) const;

  private:
    std::string bytes_;
    std::vector<std::int32_t> offsets_{0};
};

}  // namespace acapella
